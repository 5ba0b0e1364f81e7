package guard

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/tenant"
)

const (
	reader   = "wp-reads-0123456789abcdefghij"
	operator = "wp-operates-0123456789abcdefg"
)

func digest(t *testing.T, text string) tenant.Digest {
	t.Helper()
	d, err := tenant.Hash(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// guarded is a server before which a guard stands; refused collects its reasons.
func guarded(t *testing.T, tokens []Token, names ...string) (at string, refused *[]string, g *Guard) {
	t.Helper()
	refused = new([]string)
	g = New(Options{Tokens: tokens, Names: names,
		Needs: func(r *http.Request) Role {
			switch {
			case r.URL.Path == "/healthz":
				return None
			case r.Method == http.MethodGet:
				return Read
			}
			return Operate
		},
		Refuse: func(w http.ResponseWriter, status int, message string) {
			w.WriteHeader(status)
			io.WriteString(w, message)
		},
		Refused: func(reason string) { *refused = append(*refused, reason) }})
	s := httptest.NewServer(g.Before(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "inside "+r.Header.Get("Authorization"))
	})))
	t.Cleanup(s.Close)
	return s.URL, refused, g
}

func ask(t *testing.T, method, url, host string, headers ...string) (int, string, http.Header) {
	t.Helper()
	r, err := http.NewRequest(method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if host != "" {
		r.Host = host
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	text, _ := io.ReadAll(a.Body)
	return a.StatusCode, string(text), a.Header
}

func TestEachTokenOpensWhatItsRoleMayDo(t *testing.T) {
	at, refused, g := guarded(t, []Token{{"prometheus", Read, digest(t, reader)}, {"ops", Operate, digest(t, operator)}})
	for _, c := range []struct {
		method, token string
		want          int
	}{
		{http.MethodGet, reader, 200}, {http.MethodPost, reader, 403}, {http.MethodDelete, reader, 403},
		{http.MethodGet, operator, 200}, {http.MethodPost, operator, 200}, {http.MethodDelete, operator, 200},
		{http.MethodGet, "", 401}, {http.MethodPost, "", 401}, {http.MethodGet, "x", 401}, {http.MethodPost, operator + "x", 401},
		{http.MethodPost, operator[:len(operator)-1], 401}, {http.MethodGet, strings.Repeat("k", 900), 401},
	} {
		for _, form := range []string{"Bearer ", "bearer   "} {
			status, text, header := ask(t, c.method, at+"/state", "", "Authorization", form+c.token)
			if status != c.want || (status == 401) != (header.Get("WWW-Authenticate") != "") {
				t.Errorf("%s with %q: %d %s", c.method, c.token, status, text)
			}
			if c.token != "" && strings.Contains(text, c.token) && len(c.token) > 1 {
				t.Errorf("the answer repeats the token: %s", text)
			}
		}
	}
	if status, _, _ := ask(t, http.MethodGet, at+"/healthz", ""); status != 200 {
		t.Errorf("the health check is asked for a token: %d", status)
	}
	r, _ := http.NewRequest(http.MethodPost, at+"/state", nil)
	r.SetBasicAuth("anybody", operator)
	if a, err := http.DefaultClient.Do(r); err != nil || a.StatusCode != 200 {
		t.Errorf("a token as password: %v %v", a, err)
	} else {
		a.Body.Close()
	}
	for _, header := range []string{"Authorization", HeaderToken} {
		shown := []string{header, "Bearer " + operator, "Authorization", "Bearer " + operator}
		want := "inside "
		if header == HeaderToken {
			shown, want = []string{header, operator, "Authorization", "Bearer of what is asked about"}, "inside Bearer of what is asked about"
		}
		if status, text, _ := ask(t, http.MethodPost, at+"/explain", "", shown...); status != 200 || text != want {
			t.Errorf("in %s: %d %q", header, status, text)
		}
	}
	g.Replace([]Token{{"ops", Operate, digest(t, reader)}})
	if old, _, _ := ask(t, http.MethodGet, at+"/state", "", "Authorization", "Bearer "+operator); old != 401 {
		t.Errorf("a token that was replaced: %d", old)
	}
	if now, _, _ := ask(t, http.MethodPost, at+"/state", "", "Authorization", "Bearer "+reader); now != 200 {
		t.Errorf("the one in its place: %d", now)
	}
	for _, reason := range *refused {
		if reason != ByToken && reason != ByRole {
			t.Errorf("refused for %s", reason)
		}
	}
}

func TestANameThatWasMadeToPointHereIsNotAnsweredTo(t *testing.T) {
	at, refused, _ := guarded(t, nil, "router.internal", "Box")
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(at, "http://"))
	for host, want := range map[string]int{
		"": 200, "127.0.0.1:" + port: 200, "127.0.0.1": 200, "localhost:" + port: 200, "LOCALHOST": 200, "[::1]:" + port: 200, "10.1.2.3:80": 200,
		"router.internal": 200, "router.internal.:" + port: 200, "box:1": 200,
		"evil.example:" + port: 421, "localhost.evil.example": 421, "127.0.0.1.evil.example": 421, "router.internal.evil.example": 421, "router": 421, "1.2.3": 421,
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			if status, text, _ := ask(t, method, at+"/state", host); status != want || strings.Contains(text, "evil") {
				t.Errorf("%s as %q: %d %s, want %d", method, host, status, text, want)
			}
		}
	}
	if status, _, _ := ask(t, http.MethodGet, at+"/healthz", "evil.example"); status != 200 {
		t.Errorf("health tells nothing, and yet: %d", status)
	}
	for _, reason := range *refused {
		if reason != ByHost {
			t.Errorf("refused for %s", reason)
		}
	}
	tokens, _, _ := guarded(t, []Token{{"prometheus", Read, digest(t, reader)}})
	if status, _, _ := ask(t, http.MethodGet, tokens+"/metrics", "any.name", "Authorization", "Bearer "+reader); status != 200 {
		t.Errorf("a token under another name: %d", status)
	}
	if status, _, header := ask(t, http.MethodGet, tokens+"/metrics", "any.name"); status != 421 || header.Get("WWW-Authenticate") != "" {
		t.Errorf("a browser under another name is asked for a token: %d", status)
	}
}

func TestNothingIsChangedFromThePageOfAnotherSite(t *testing.T) {
	at, refused, _ := guarded(t, nil)
	for _, from := range [][]string{{"Origin", "http://evil.example"}, {"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}} {
		if status, _, _ := ask(t, http.MethodPost, at+"/state", "", from...); status != 403 {
			t.Errorf("from %v: %d", from, status)
		}
	}
	if len(*refused) != 3 || (*refused)[0] != ByOrigin {
		t.Errorf("refused %v", *refused)
	}
	if status, _, _ := ask(t, http.MethodPost, at+"/state", "", "Origin", at, "Sec-Fetch-Site", "same-origin"); status != 200 {
		t.Errorf("from our own: %d", status)
	}
}
