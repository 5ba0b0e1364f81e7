package packaging_test

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	releaseName    = "warmpath_v0.0.1-test_linux_amd64"
	binaryBytesMax = 40_000_000
)

// unpack writes a .tar.gz into a folder and returns the names of its files and the modes of those that can be executed.
func unpack(t *testing.T, file, into string) (names, executable []string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return names, executable
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeDir {
			continue
		}
		if h.Uid != 0 || h.Gid != 0 || h.ModTime.UTC().Format("2006-01-02") != "2026-01-02" {
			t.Errorf("%s: owner %d:%d, time %v", h.Name, h.Uid, h.Gid, h.ModTime)
		}
		if h.Mode&0o111 != 0 {
			executable = append(executable, h.Name)
		}
		names = append(names, h.Name)
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		target := filepath.Join(into, filepath.FromSlash(h.Name))
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(target, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAReleaseIsWholeSmallAndListsWhatIsLinkedIn(t *testing.T) {
	folder, said, err := release(t)
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	into := t.TempDir()
	names, executable := unpack(t, filepath.Join(folder, releaseName+".tar.gz"), into)
	if !slices.Equal(executable, []string{releaseName + "/warmpath"}) {
		t.Errorf("executable: %v", executable)
	}
	for _, want := range []string{"LICENSE", "README.md", "CHANGELOG.md", "warmpath.service", "man/warmpath.1", "man/warmpath-serve.1", "man/warmpath-doctor.1",
		"completions/warmpath.bash", "completions/_warmpath", "completions/warmpath.fish"} {
		if !slices.Contains(names, releaseName+"/"+want) {
			t.Errorf("the archive lacks %s", want)
		}
	}
	product := filepath.Join(into, releaseName, "warmpath")
	if info, err := os.Stat(product); err != nil || info.Size() >= binaryBytesMax {
		t.Errorf("binary: %v, %v; want less than %d bytes", info.Size(), err, binaryBytesMax)
	}
	page := text(t, filepath.Join(into, releaseName, "man", "warmpath-serve.1"))
	if !strings.Contains(page, `"Jan 2026"`) {
		t.Errorf("the man page is not dated by the release: %.80s", page)
	}
	checkSums(t, folder)
	checkBill(t, filepath.Join(folder, releaseName+".cdx.json"), product)
}

// checkSums holds SHA256SUMS against every other file of the release.
func checkSums(t *testing.T, folder string) {
	t.Helper()
	listed := map[string]string{}
	for line := range strings.Lines(text(t, filepath.Join(folder, "SHA256SUMS"))) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		listed[name] = sum
	}
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) != 3 || len(listed) != 2 {
		t.Errorf("%d files, %d sums, %v", len(entries), len(listed), err)
	}
	for name, want := range listed {
		sum := sha256.Sum256([]byte(text(t, filepath.Join(folder, name))))
		if got := hex.EncodeToString(sum[:]); got != want {
			t.Errorf("%s: %s, listed as %s", name, got, want)
		}
	}
}

// checkBill holds a bill of materials against what the linker noted in the binary.
func checkBill(t *testing.T, file, product string) {
	t.Helper()
	var bill struct {
		BOMFormat, SpecVersion, SerialNumber string
		Metadata                             struct {
			Component struct {
				Name, Version string
				Hashes        []struct{ Alg, Content string }
			}
		}
		Components   []struct{ Type, Name, Version, PURL string }
		Dependencies []struct{ Ref string }
	}
	if err := json.Unmarshal([]byte(text(t, file)), &bill); err != nil {
		t.Fatal(err)
	}
	uuid := regexp.MustCompile(`^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	own := bill.Metadata.Component
	if bill.BOMFormat != "CycloneDX" || bill.SpecVersion != "1.6" || !uuid.MatchString(bill.SerialNumber) || own.Name != "warmpath" || own.Version != "v0.0.1-test" {
		t.Errorf("%+v", bill)
	}
	sum := sha256.Sum256([]byte(text(t, product)))
	if len(own.Hashes) != 1 || own.Hashes[0].Content != hex.EncodeToString(sum[:]) {
		t.Errorf("the bill is of another binary: %+v", own.Hashes)
	}
	info, err := buildinfo.ReadFile(product)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"pkg:golang/stdlib@" + strings.TrimPrefix(info.GoVersion, "go")}
	for _, m := range info.Deps {
		want = append(want, "pkg:golang/"+m.Path+"@"+m.Version)
	}
	var got []string
	for _, c := range bill.Components {
		got = append(got, c.PURL)
	}
	if !slices.Equal(got, want) || len(bill.Dependencies) != len(want)+1 {
		t.Errorf("listed %v\nlinked %v", got, want)
	}
	for _, m := range got {
		if strings.Contains(m, "md2man") {
			t.Errorf("%s is for the man pages and must not be linked in", m)
		}
	}
}

func TestAReleaseWithABinaryThatIsTooLargeFails(t *testing.T) {
	folder, said, err := release(t, "BINARY_BYTES_MAX=1000000")
	if err == nil || !strings.Contains(said, "more than 1000000 (BINARY_BYTES_MAX)") {
		t.Errorf("%v: %s", err, said)
	}
	if _, err := os.Stat(filepath.Join(folder, "SHA256SUMS")); err == nil {
		t.Error("a failed release has check sums")
	}
}
