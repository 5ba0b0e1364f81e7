package discovery

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/warmpath/warmpath/internal/life"
)

// File is a file of workers. It is looked at every so often and not subscribed to: a look costs one system call, sees every way in which
// a file can change (written in place, put in its place by rename, a symbolic link on the way that points elsewhere, as Kubernetes swaps
// ConfigMaps), and works on file systems that tell of nothing, such as NFS and bind mounts.
type File struct {
	Path  string
	Parse func(text []byte) ([]Worker, error) // an error leaves all as it is
	Every time.Duration                       // between two looks; default 250 ms
}

const (
	fileEvery    = 250 * time.Millisecond
	fileBytesMax = 4 << 20
	// fileReread is how often a file is read that does not look changed: one of the same size may have been written within a clock tick.
	fileReread = 10 * time.Second
)

// look is what a file shows without being read.
type look struct {
	info fs.FileInfo
	ok   bool
}

// same says whether two looks show the same file, unchanged.
func (l look) same(o look) bool {
	return l.ok && o.ok && os.SameFile(l.info, o.info) && l.info.Size() == o.info.Size() && l.info.ModTime().Equal(o.info.ModTime())
}

// Follow implements Source. A file that was changed is read once it looks the same twice: one that is being written in place may be cut
// off where it is still good YAML. The first look does not wait.
func (f File) Follow(ctx context.Context, tell func([]Worker, error)) {
	every := f.Every
	if every <= 0 {
		every = fileEvery
	}
	var seen, read look
	var sum [sha256.Size]byte
	var set []Worker
	failed, at := "", time.Time{}
	for first := true; first || life.Pause(ctx, every); first = false {
		info, err := os.Stat(f.Path)
		now := look{info, err == nil}
		settled := first || now.same(seen)
		seen = now
		switch {
		case err != nil:
			read = look{}
			if why := inPath(err); why.Error() != failed { // said once, not four times a second
				failed = why.Error()
				tell(nil, why)
			}
			continue
		case !settled, now.same(read) && time.Since(at) < fileReread:
			continue
		}
		text, err := f.read()
		if err == nil {
			if s := sha256.Sum256(text); s != sum || failed != "" || at.IsZero() {
				if set, err = f.Parse(text); err == nil {
					sum = s
				}
			}
		}
		read, at = now, time.Now()
		if err != nil {
			failed = err.Error()
			tell(nil, err)
			continue
		}
		failed = ""
		tell(set, nil)
	}
}

func (f File) read() ([]byte, error) {
	file, err := os.Open(f.Path)
	if err != nil {
		return nil, inPath(err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, fileBytesMax+1))
	if err == nil && len(text) > fileBytesMax {
		err = fmt.Errorf("it is larger than %d bytes, the most a file of workers may have", fileBytesMax)
	}
	return text, err
}

// inPath leaves out the path, which stands in the source's name already.
func inPath(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
