package kubefake

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAWatchTellsWhatHappensAfterAVersionUnderItsSelector(t *testing.T) {
	s := New()
	url, stop := s.Listen()
	defer stop()
	path := Pods("n")
	s.Put(path, Pod("a", "1", "10.0.0.1", true, map[string]string{"x": "y"}))
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(query string) io.ReadCloser {
		t.Helper()
		answer, err := client.Get(url + path + query)
		if err != nil {
			t.Fatal(err)
		}
		return answer.Body
	}
	list := get("?labelSelector=x%3Dy")
	text, _ := io.ReadAll(list)
	list.Close()
	if !strings.Contains(string(text), `"resourceVersion":"2"`) {
		t.Fatalf("%s", text)
	}
	watch := get("?watch=true&labelSelector=x%3Dy&timeoutSeconds=60&resourceVersion=2")
	defer watch.Close()
	lines := bufio.NewScanner(watch)
	for i, c := range []struct {
		do   func()
		want string
	}{
		{func() { s.Put(path, Pod("b", "2", "10.0.0.2", true, map[string]string{"x": "y"})) }, "ADDED"},
		{func() { s.Put(path, Pod("b", "2", "10.0.0.2", false, map[string]string{"x": "y"})) }, "MODIFIED"},
		{func() { s.Put(path, Pod("b", "2", "10.0.0.2", false, nil)) }, "DELETED"},
		{func() {
			s.Put(path, Pod("c", "3", "10.0.0.3", false, nil))
			s.Delete(path, "a")
		}, "DELETED"},
	} {
		c.do()
		if !lines.Scan() || !strings.Contains(lines.Text(), fmt.Sprintf(`"type":%q`, c.want)) {
			t.Errorf("%d: %s, want %s", i, lines.Text(), c.want)
		}
	}
	s.Forget()
	old := get("?watch=true&timeoutSeconds=60&resourceVersion=2")
	defer old.Close()
	if text, _ := io.ReadAll(old); !strings.Contains(string(text), "410") {
		t.Errorf("%s", text)
	}
}
