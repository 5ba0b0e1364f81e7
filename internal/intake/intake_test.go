package intake

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/warmpath/warmpath/internal/leash"
)

func TestABodyComesWholeWhateverItsLengthAndPlace(t *testing.T) {
	folder := t.TempDir()
	for _, size := range []int{0, 1, 99, 100, 101, 4000} {
		for _, announced := range []bool{true, false} {
			for _, spoolBytes := range []int64{0, 100} {
				text := strings.Repeat("x", size)
				length := int64(-1)
				if announced {
					length = int64(size)
				}
				b, err := Take(iotest.HalfReader(strings.NewReader(text)), length, Limits{BytesMax: 4000, SpoolBytes: spoolBytes, SpoolDir: folder})
				if err != nil {
					t.Fatalf("%d bytes, announced %v: %v", size, announced, err)
				}
				for range 2 { // a second try starts over
					got, err := io.ReadAll(b.Reader())
					if err != nil || string(got) != text || b.Size != int64(size) || b.Spooled() != (spoolBytes > 0 && size > 100) {
						t.Errorf("%d bytes, announced %v, spool %d: got %d, size %d, spooled %v, %v", size, announced, spoolBytes, len(got), b.Size, b.Spooled(), err)
					}
				}
				if files, _ := os.ReadDir(folder); len(files) > 0 {
					t.Error("the file has a name")
				}
				if err := errors.Join(b.Close(), b.Close()); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

func TestABodyThatIsTooLongOrTooShortIsAnError(t *testing.T) {
	limits := Limits{BytesMax: 1000, SpoolBytes: 100, SpoolDir: t.TempDir()}
	var large *TooLargeError
	for _, length := range []int64{1001, -1} {
		if _, err := Take(strings.NewReader(strings.Repeat("x", 1001)), length, limits); !errors.As(err, &large) || large.BytesMax != 1000 {
			t.Errorf("announced %d: %v", length, err)
		}
	}
	for _, length := range []int64{50, 500} {
		if _, err := Take(strings.NewReader("x"), length, limits); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("1 byte of %d: %v", length, err)
		}
	}
	broken := errors.New("broken")
	if _, err := Take(io.MultiReader(strings.NewReader(strings.Repeat("x", 500)), iotest.ErrReader(broken)), -1, limits); !errors.Is(err, broken) {
		t.Errorf("a reader that breaks: %v", err)
	}
}

func TestABodyStaysInMemoryWhereNoFileCanBeMade(t *testing.T) {
	limits := Limits{BytesMax: 1000, SpoolBytes: 100, SpoolDir: filepath.Join(t.TempDir(), "nowhere")}
	for _, length := range []int64{500, -1} {
		b, err := Take(strings.NewReader(strings.Repeat("x", 500)), length, limits)
		if err != nil || b.Spooled() || len(b.Bytes) != 500 || b.NoSpool == nil {
			t.Errorf("announced %d: %+v %v", length, b, err)
		}
	}
	var large *TooLargeError
	if _, err := Take(strings.NewReader(strings.Repeat("x", 1001)), -1, limits); !errors.As(err, &large) {
		t.Errorf("too large: %v", err)
	}
}

func TestAFullDiskIsToldFromAClientThatStops(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	takesNothing, err := os.Open(name) // for reading, so that every write fails
	if err != nil {
		t.Fatal(err)
	}
	defer takesNothing.Close()
	var spool *SpoolError
	if _, err := copyTo(takesNothing, strings.NewReader("x"), nil); !errors.As(err, &spool) {
		t.Errorf("a file that takes nothing: %v", err)
	}
	if _, err := copyTo(takesNothing, iotest.ErrReader(io.ErrUnexpectedEOF), nil); errors.As(err, &spool) || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a client that stops: %v", err)
	}
}

func TestPathsThatPass(t *testing.T) {
	for path, want := range map[string]Kind{
		"/v1/chat/completions": {Generates: true, Warms: true}, "/completion": {Generates: true, Warms: true}, "/infill": {Generates: true, Warms: true},
		"/rerank": {Warms: true}, "/v1/rerank": {Warms: true}, "/v2/rerank": {Warms: true}, "/score": {Warms: true}, "/v1/score": {Warms: true},
		"/tokenize": {}, "/v1/detokenize": {}, "/apply-template": {}, "/v1/audio/speech/": {}, "/v1/images/edits": {}, "/v1/unheard/of": {Warms: true},
	} {
		if got, ok := Way(path); !ok || got != want {
			t.Errorf("%s: %+v %v, want %+v", path, got, ok, want)
		}
	}
	for _, path := range []string{"", "/", "/v1", "/v1/", "/metrics", "/slots", "/props", "/shutdown", "/sleep", "/health", "/flush_cache", "/v1/load_lora_adapter",
		"/v1/../metrics", "/v1/x/..", "//metrics", "/v1//load_lora_adapter", "/v1/./loads", "/v1/loads/", `/v1\..\metrics`, "/RERANK", "/api/pull"} {
		if kind, ok := Way(path); ok {
			t.Errorf("%s passes: %+v", path, kind)
		}
	}
}

func TestABoundaryIsFoundWhereverAParserWouldFindIt(t *testing.T) {
	for header, want := range map[string]string{
		"multipart/form-data; boundary=abc": "abc", `multipart/form-data; boundary="a b"`: "a b", "Multipart/Form-Data; charset=utf-8; BOUNDARY=x": "x",
		"multipart/form-data; boundary=a=b/c": "a=b/c", "multipart/form-data": "", "application/json": "", "multipart/form-data; boundary=": "", "multi": "",
	} {
		if got, ok := Boundary(header); got != want || ok != (want != "") {
			t.Errorf("%q: %q %v, want %q", header, got, ok, want)
		}
	}
}

func TestAFormsFieldsAreReadWhereverTheyStand(t *testing.T) {
	part := func(name, value string) string {
		return "--b\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + value + "\r\n"
	}
	file := "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"m\xc3\xbc.wav\"\r\nContent-Type: audio/wav\r\n\r\n" + strings.Repeat("\r\n--\r\n-b", 2000) + "\r\n"
	for name, run := range map[string]struct {
		body  string
		want  Form
		fails bool
	}{
		"model last":           {file + part("stream", "True") + part("model", " whisper ") + "--b--\r\n", Form{Model: "whisper", Stream: true}, false},
		"no newline at end":    {part("model", "x") + file + "--b--", Form{Model: "x"}, false},
		"the last one counts":  {part("model", "x") + part("model", "y") + part("user", "u") + "--b--", Form{Model: "y", User: "u"}, false},
		"a file named model":   {strings.Replace(file, "name=\"file\"", "name=\"model\"", 1) + "--b--", Form{}, false},
		"a model too long":     {part("model", strings.Repeat("x", 5000)) + "--b--", Form{}, false},
		"an epilogue":          {part("model", "x") + "--b--\r\nwhatever", Form{Model: "x"}, false},
		"no end":               {part("model", "x") + file, Form{Model: "x"}, true},
		"cut in a part's head": {part("model", "x") + "--b\r\nContent-Disp", Form{Model: "x"}, true},
		"empty":                {"", Form{}, true},
		"another boundary":     {"--c\r\n\r\n--c--", Form{}, true},
	} {
		got, err := ReadForm(iotest.OneByteReader(strings.NewReader(run.body)), "b")
		if got != run.want || (err != nil) != run.fails {
			t.Errorf("%s: %+v %v", name, got, err)
		}
	}
}

func TestCORSLetsInWhomItNamesAndNobodyElse(t *testing.T) {
	for _, run := range []struct {
		origins      []string
		origin, want string
	}{
		{nil, "https://a", ""}, {[]string{"https://a"}, "https://a", "https://a"}, {[]string{"https://a"}, "https://b", ""},
		{[]string{"*"}, "https://b", "*"}, {[]string{"*"}, "", ""}, {[]string{"https://a"}, "null", ""},
	} {
		w := httptest.NewRecorder()
		h, r := w.Header(), &http.Request{Method: http.MethodOptions, Header: http.Header{}}
		if run.origin != "" {
			r.Header.Set("Origin", run.origin)
		}
		r.Header.Set("Access-Control-Request-Headers", "authorization,x-stainless-os")
		ok := CORS{run.origins}.Allow(w, r)
		if got := h.Get("Access-Control-Allow-Origin"); got != run.want || ok != (run.want != "") || (h.Get("Vary") == "Origin") != (run.origins != nil) {
			t.Errorf("%+v: %v %v", run, ok, h)
		}
		if ok && h.Get("Access-Control-Allow-Headers") != "authorization,x-stainless-os" {
			t.Errorf("%+v: the headers asked for are not allowed: %v", run, h)
		}
	}
}

// FuzzReadForm: whatever comes, a form ends, and a well-formed one gives its model.
func FuzzReadForm(f *testing.F) {
	f.Add([]byte("--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--b--"), "b", uint64(1))
	f.Add([]byte("--b\n\n--b--"), "b", uint64(2))
	f.Fuzz(func(t *testing.T, body []byte, boundary string, seed uint64) {
		defer leash.Hold(t, len(body))()
		if boundary == "" || len(boundary) > 70 {
			return
		}
		ReadForm(bytes.NewReader(body), boundary)
		var b bytes.Buffer
		w := multipart.NewWriter(&b)
		if w.SetBoundary(boundary) != nil || bytes.Contains(body, []byte("--"+boundary)) {
			return
		}
		model := fmt.Sprint("m", rand.New(rand.NewPCG(seed, 0)).Uint32())
		part, _ := w.CreateFormFile("file", "x")
		part.Write(body)
		w.WriteField("model", model)
		w.Close()
		if form, err := ReadForm(&b, boundary); err != nil || form.Model != model {
			t.Errorf("%+v %v, want %s", form, err, model)
		}
	})
}
