package page

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

func get(t *testing.T, p *Page, path string, headers ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w.Result()
}

func text(t *testing.T, r io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func made(t *testing.T) *Page {
	t.Helper()
	p, err := New()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestThePageIsServedPackedOrPlainAndAgainOnlyWhenItChanged(t *testing.T) {
	p := made(t)
	plain := get(t, p, "/")
	whole := text(t, plain.Body)
	if !strings.Contains(whole, "<title>warmpath</title>") || plain.Header.Get("Content-Encoding") != "" || !strings.HasPrefix(plain.Header.Get("Content-Type"), "text/html") {
		t.Fatalf("%v %.80q", plain.Header, whole)
	}
	packed := get(t, p, "/", "Accept-Encoding", "deflate, gzip;q=0.8, br")
	z, err := gzip.NewReader(packed.Body)
	if err != nil || text(t, z) != whole {
		t.Errorf("packed it is another page: %v", err)
	}
	if refused := get(t, p, "/", "Accept-Encoding", "gzip;q=0"); refused.Header.Get("Content-Encoding") != "" {
		t.Error("who refuses gzip is sent it")
	}
	if again := get(t, p, "/", "If-None-Match", plain.Header.Get("ETag")); again.StatusCode != http.StatusNotModified || text(t, again.Body) != "" {
		t.Errorf("%d for what has not changed", again.StatusCode)
	}
	if missing := get(t, p, "/nothing.js"); missing.StatusCode != http.StatusNotFound {
		t.Errorf("%d for a file that does not exist", missing.StatusCode)
	}
}

func TestThePageFetchesNothingFromElsewhereAndStaysSmall(t *testing.T) {
	p := made(t)
	elsewhere := regexp.MustCompile(`(?i)(src|href|import|url|fetch|EventSource)\W{1,3}(https?:)?//`)
	total := 0
	for at, f := range p.files {
		if !strings.HasPrefix(at, "/vendor/") && elsewhere.Match(f.plain) {
			t.Errorf("%s asks another host: %s", at, elsewhere.Find(f.plain))
		}
		total += len(f.plain)
	}
	if most := 300_000; total > most {
		t.Errorf("the page has %d bytes, at most %d are wanted", total, most)
	}
	if policy := get(t, p, "/app.js").Header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
		t.Errorf("the policy is %q", policy)
	}
}

func TestEveryFileThatThePageNamesIsThere(t *testing.T) {
	p := made(t)
	named := regexp.MustCompile(`(?:src|href)="([^"#:]+)"|from "\./([^"]+)"`)
	for at, f := range p.files {
		if strings.HasPrefix(at, "/vendor/") {
			continue
		}
		for _, m := range named.FindAllStringSubmatch(string(f.plain), -1) {
			name := "/" + m[1] + m[2]
			if _, ok := p.files[name]; !ok && name != "/state" && name != "/metrics" {
				t.Errorf("%s names %s, which is not there", at, name)
			}
		}
	}
}

func TestTheVendoredPartCarriesItsLicence(t *testing.T) {
	if licence := text(t, get(t, made(t), "/vendor/uPlot-LICENSE").Body); !strings.Contains(licence, "MIT License") {
		t.Errorf("the licence reads %.60q", licence)
	}
}
