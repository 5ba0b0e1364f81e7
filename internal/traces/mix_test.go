package traces

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func opened(t *testing.T, name string) *Trace {
	t.Helper()
	x, err := Open(name, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func mixed(t *testing.T, parts ...Part) *Trace {
	t.Helper()
	x, err := Mix(parts)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestAMixHasEachPartsRequestsInOrderOfTimeUnderItsTenant(t *testing.T) {
	chats, bursts := opened(t, "chats:chats=20,turns=3,rate=2"), opened(t, "bursts:requests=30,burst=3,rate=2")
	x := mixed(t, Part{"a", chats}, Part{"b", bursts})
	counts, latest := map[string]int{}, time.Duration(0)
	var before Request
	for i, q := range all(t, x, 3) {
		counts[q.Tenant]++
		switch {
		case q.Follows && (before.Session != q.Session || before.Tenant != q.Tenant):
			t.Errorf("request %d of tenant %s follows one of another session", i, q.Tenant)
		case !q.Follows && q.At < latest:
			t.Errorf("request %d comes at %v, behind one at %v", i, q.At, latest)
		case !q.Follows:
			latest = q.At
		}
		before = q
	}
	if counts["a"] != len(all(t, chats, 3)) || counts["b"] != len(all(t, bursts, 3)) || !x.Sessions {
		t.Errorf("%v", counts)
	}
}

func TestWhatTwoTenantsAskSharesNoPrefix(t *testing.T) {
	same := func() *Trace { return opened(t, "hot:requests=10") }
	first := map[string]Request{}
	for _, q := range all(t, mixed(t, Part{"a", same()}, Part{"b", same()}), 1) {
		if one, ok := first[q.Tenant]; !ok {
			first[q.Tenant] = q
		} else if q.Common(one.Blocks) == 0 {
			t.Errorf("tenant %s has lost its own prefix", q.Tenant)
		}
	}
	a, b := first["a"], first["b"]
	if a.Common(b.Blocks) != 0 || len(a.Blocks) == 0 {
		t.Error("two tenants share blocks")
	}
}

func TestSeedsMakeOtherMixesAlsoBesideAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "azure.csv")
	if err := os.WriteFile(file, []byte("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,100,5\n2023-11-16 18:15:48,200,5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	x := mixed(t, Part{"file", opened(t, file)}, Part{"made", opened(t, "bursts:requests=20")})
	if err := x.Load(1 << 20); err != nil {
		t.Fatal(err)
	}
	one, again, other := all(t, x, 1), all(t, x, 1), all(t, x, 2)
	if !reflect.DeepEqual(one, again) || len(one) != 22 {
		t.Errorf("%d requests, or not the same twice", len(one))
	}
	if reflect.DeepEqual(one, other) {
		t.Error("two seeds make the same")
	}
}

func TestAPartWithoutATenantLeavesRequestsTheirs(t *testing.T) {
	made := opened(t, "bursts:requests=5")
	made.Map(func(q *Request) { q.Tenant = "their own" })
	for _, q := range all(t, mixed(t, Part{"", made}, Part{"b", opened(t, "bursts:requests=5")}), 1) {
		if q.Tenant != "their own" && q.Tenant != "b" {
			t.Errorf("tenant %q", q.Tenant)
		}
	}
}

func TestWhatCannotBeMixedSaysWhy(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mooncake.jsonl")
	if err := os.WriteFile(file, []byte(`{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"uniform:": "no times of their own", file: "blocks of 16 tokens"} {
		if _, err := Mix([]Part{{"a", opened(t, "hot:")}, {"b", opened(t, name)}}); err == nil || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: %v, want %q in it", name, err, want)
		}
	}
}
