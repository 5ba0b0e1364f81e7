package intake

import (
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"strings"
)

// fieldBytesMax bounds a form's field that routing reads; a longer one is taken for none.
const fieldBytesMax = 4 << 10

// Form is what routing needs of a multipart form.
type Form struct {
	Model  string
	User   string
	Stream bool
}

// Boundary cuts the boundary out of a Content-Type; ok is false when it is not multipart or names none. Boundaries that the grammar
// would want in quotes are taken without them, as the engines' own parsers do.
func Boundary(contentType string) (boundary string, ok bool) {
	if len(contentType) < len("multipart/") || !strings.EqualFold(contentType[:len("multipart/")], "multipart/") {
		return "", false
	}
	if _, params, err := mime.ParseMediaType(contentType); err == nil {
		return params["boundary"], params["boundary"] != ""
	}
	for part := range strings.SplitSeq(contentType, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		if strings.EqualFold(strings.TrimSpace(name), "boundary") {
			value = strings.Trim(strings.TrimSpace(value), `"`)
			return value, value != ""
		}
	}
	return "", false
}

// errOpenForm is a form whose last boundary is missing.
var errOpenForm = errors.New("it ends before its closing boundary")

// openEnd stands behind a form, because the standard parser takes some forms that end too early for whole ones.
type openEnd struct{}

func (openEnd) Read([]byte) (int, error) { return 0, errOpenForm }

// ReadForm reads a whole multipart body for the fields that routing needs, wherever they stand among the files; the last of several
// counts, as it does in the engines. It keeps one small field at a time. What it read before an error is in the Form.
func ReadForm(r io.Reader, boundary string) (Form, error) {
	var f Form
	parts := multipart.NewReader(io.MultiReader(r, strings.NewReader("\r\n"), openEnd{}), boundary)
	for {
		part, err := parts.NextRawPart()
		if err == io.EOF {
			return f, nil
		}
		if errors.Is(err, errOpenForm) {
			err = errOpenForm
		}
		if err != nil {
			return f, err
		}
		name := part.FormName()
		if part.FileName() != "" || name != "model" && name != "stream" && name != "user" {
			continue // NextRawPart skips what is left of it
		}
		value, err := io.ReadAll(io.LimitReader(part, fieldBytesMax+1))
		if err != nil {
			return f, err
		}
		if len(value) > fieldBytesMax {
			continue
		}
		switch text := strings.TrimSpace(string(value)); name {
		case "model":
			f.Model = text
		case "user":
			f.User = text
		case "stream":
			f.Stream = isTrue(text)
		}
	}
}

// isTrue reads a form's truth as the Python engines do.
func isTrue(s string) bool {
	switch strings.ToLower(s) {
	case "true", "1", "on", "yes", "t", "y":
		return true
	}
	return false
}
