package tenant

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/leash"
)

var noon = time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)

// fresh makes keys of a seed.
func fresh(n uint64) string {
	var random [32]byte
	r := rand.New(rand.NewPCG(n, 1))
	for i := range random {
		random[i] = byte(r.Uint32())
	}
	return Fresh(random)
}

func digest(t testing.TB, key string) string {
	t.Helper()
	d, err := Hash(key)
	if err != nil {
		t.Fatal(err)
	}
	return d.String()
}

func table(t testing.TB, text string, keys ...string) *Table {
	t.Helper()
	for i, k := range keys {
		text = strings.ReplaceAll(text, fmt.Sprint("$", i+1), digest(t, k))
	}
	parsed, err := Parse("tenants.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

const house = `
anonymous: guests
tenants:
  - name: search
    keys:
      - $1
      - {digest: "$2", expires: 2027-03-01T12:00:10Z}
    models: [chat, qwen-*]
    class: standard
    classes: [batch]
    weight: 2.5
    tier_min: 2
    in_flight: 32
    requests_per_minute: 600
    tokens_per_minute: 200000
    spend_per_day: 25.5
  - {name: guests, weight: 0.1, in_flight: 2}
  - {name: lab, keys: [$3]}
`

func TestAFileSaysWhoHasWhichKeyAndWhatTheyMay(t *testing.T) {
	a, b, c := fresh(1), fresh(2), fresh(3)
	all := table(t, house, a, b, c)
	search := all.Named("search")
	if got, want := fmt.Sprintf("%+v", *search), "{Name:search Models:[chat qwen-*] Class:standard Classes:[batch] Weight:2.5 TierMin:2 Limits:{InFlight:32 RequestsPerMinute:600 TokensPerMinute:200000 SpendPerDay:25.5000}}"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if len(all.Tenants()) != 3 || all.Tenants()[0].Name != "guests" {
		t.Errorf("%d tenants", len(all.Tenants()))
	}
}

func TestAUT01AKeyIsSomebodysOrNotValidAndNothingMoreIsTold(t *testing.T) {
	a, b, c := fresh(1), fresh(2), fresh(3)
	all := table(t, house, a, b, c)
	for _, x := range []struct {
		key  string
		at   time.Time
		want string
		err  error
	}{
		{a, noon, "search", nil}, {b, noon, "search", nil}, {b, noon.Add(10 * time.Second), "", ErrKey}, {c, noon, "lab", nil},
		{"", noon, "guests", nil}, {fresh(4), noon, "", ErrKey}, {a[:len(a)-1], noon, "", ErrKey}, {a + " ", noon, "", ErrKey}, {"\r\n" + a, noon, "", ErrKey},
		{strings.Repeat("a", 64<<10), noon, "", ErrKey}, {"short", noon, "", ErrKey}, {digest(t, a), noon, "", ErrKey},
	} {
		who, err := all.Find(x.at, x.key)
		if err != x.err || err == nil && who.Name != x.want {
			t.Errorf("%d bytes: %v, %v; want %s, %v", len(x.key), who, err, x.want, x.err)
		}
	}
}

func TestWithoutAnonymousNobodyAsksWithoutAKeyAndWhereThereIsNoKeyEverybodyDoes(t *testing.T) {
	key := fresh(1)
	if who, err := table(t, "tenants: [{name: a, keys: [$1]}]", key).Find(noon, ""); err != ErrNoKey || who != nil {
		t.Errorf("%v, %v", who, err)
	}
	for _, k := range []string{"", "sk-of-the-engine", key} {
		if who, err := table(t, "{anonymous: a, tenants: [{name: a}]}").Find(noon, k); err != nil || who.Name != "a" || !who.MayUse("any") {
			t.Errorf("%v, %v", who, err)
		}
	}
}

func TestModelsAreNamedInFullOrByHowTheyBegin(t *testing.T) {
	who := table(t, house, fresh(1), fresh(2), fresh(3)).Named("search")
	for model, want := range map[string]bool{"chat": true, "chatty": false, "qwen-3": true, "qwen-": true, "qwen": false, "": false, "*": false} {
		if who.MayUse(model) != want {
			t.Errorf("%q: %v, want %v", model, !want, want)
		}
	}
}

func TestSEC07NothingButTheKeyMakesATenantAndNoWishABetterClass(t *testing.T) {
	b := NewBook(table(t, house, fresh(1), fresh(2), fresh(3)))
	for i := range 10_000 {
		if _, err := b.Find(noon, fmt.Sprintf("made-up-key-number-%020d", i)); err != ErrKey {
			t.Fatal(err)
		}
	}
	if len(b.accounts) != 0 {
		t.Errorf("%d accounts of keys that nobody has", len(b.accounts))
	}
	who := b.table.Named("search")
	for asked, want := range map[string]string{"": "standard", "batch": "batch", "interactive": "standard", "Batch": "standard"} {
		if got := who.ClassOf(asked); got != want {
			t.Errorf("asked for %q, got %q, want %q", asked, got, want)
		}
	}
	if err := b.table.CheckClasses([]string{"interactive", "standard"}); err == nil || !strings.Contains(err.Error(), "batch") {
		t.Errorf("a class that there is not: %v", err)
	}
	if err := b.table.CheckClasses([]string{"standard", "batch"}); err != nil {
		t.Error(err)
	}
}

func TestAFileThatIsWrongSaysWhereAndWhy(t *testing.T) {
	key := digest(t, fresh(1))
	for text, want := range map[string]string{
		"":                     "nothing in it",
		"a: [":                 "not YAML",
		"[]":                   "tenants.yaml:1: want a mapping",
		"tenants: []":          "want at least one",
		"tenants: 7":           "tenants.yaml:1: tenants: want a list",
		"tenants: [{name: a}]": "tenant a has no key",
		"anonymous: b\ntenants: [{name: a, keys: [" + key + "]}]":                                         "tenants.yaml:1: anonymous: there is no tenant",
		"tenants:\n- {name: a, keys: [" + key + "]}\n- {name: b, keys: [" + key + "]}":                    "tenants.yaml:3: tenants[1].keys[0]: the same key is in line 2",
		"tenants: [{keys: [" + key + "]}]":                                                                "no name",
		"tenants: [{name: a b, keys: [" + key + "]}]":                                                     "tenants[0].name: want 1 to 64 letters",
		"anonymous: a\ntenants: [{name: a}, {name: a}]":                                                   "another tenant of that name",
		"anonymous: a\ntenants: [{name: a, wieght: 2}]":                                                   `there is no setting "wieght"`,
		"anonymous: a\ntenants: [{name: a, weight: 2, weight: 3}]":                                        `the setting "weight" is there twice`,
		"anonymous: a\ntenants: [{name: a, weight: 0}]":                                                   "0, want 0.001 to 1000",
		"anonymous: a\ntenants: [{name: a, weight: -1}]":                                                  "-1, want 0.001 to 1000",
		"anonymous: a\ntenants: [{name: a, weight: .nan}]":                                                "want a number",
		"anonymous: a\ntenants: [{name: a, weight: two}]":                                                 "want a number",
		"anonymous: a\ntenants: [{name: a, in_flight: 1.5}]":                                              "want a whole number",
		"anonymous: a\ntenants: [{name: a, tokens_per_minute: -5}]":                                       "want 0 to",
		"anonymous: a\ntenants: [{name: a, models: chat}]":                                                "models: want a list",
		"anonymous: a\ntenants: [{name: a, models: [1.5]}]":                                               "want a text",
		"anonymous: a\ntenants: [{name: a, keys: [sha256:12]}]":                                           "want sha256: and 64",
		"anonymous: a\ntenants: [{name: a, keys: [" + strings.ToUpper(key) + "]}]":                        "want sha256: and 64",
		"anonymous: a\ntenants: [{name: a, keys: [{digest: " + key + ", expires: tomorrow}]}]":            "want a time",
		"anonymous: a\ntenants: [{name: a, keys: [{digest: " + key + ", expire: 2027-01-01T00:00:00Z}]}]": `no setting "expire"`,
		"anonymous: a\ntenants: &x [{name: a}]":                                                           "anchors",
		"anonymous: a\ntenants: [{name: a}]\n---\na: b":                                                   "a second YAML document",
	} {
		if _, err := Parse("tenants.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v\nwant %s", text, err, want)
		}
	}
}

// TestNoMessageRepeatsAKeyInTheClear puts a key wherever somebody might by mistake.
func TestNoMessageRepeatsAKeyInTheClear(t *testing.T) {
	for _, key := range []string{fresh(7), "sk-proj-0123456789abcdefghij", "AKfycbx0123456789abcdefghijklmnop"} {
		for _, text := range []string{
			"$", "$: x", "tenants: $", "tenants: [$]", "tenants: [{$: a}]", "tenants: [{name: a, keys: $}]", "tenants: [{name: a, keys: [$]}]",
			"tenants: [{name: a, keys: [{$: x}]}]", "tenants: [{name: a, keys: [{digest: $}]}]", "tenants: [{name: a, keys: [\"sha256:$\"]}]",
			"tenants: [{name: a, keys: [{digest: x, expires: $}]}]", "tenants: [{name: a, weight: $}]", "tenants: [{name: a, $: 1, $: 2}]", "tenants: [{name: a, models: {$: 1}}]",
			"tenants: [&$ {name: a}, *$]", "tenants: [*$]", "anonymous: $\ntenants: [{name: a}]", "tenants: [{name: a, in_flight: !!int $}]", "tenants: [\"$", "tenants: {name: a\n$", "!$ tenants: []", "%$ tenants",
			"tenants: [{name: \"$ $\", keys: [x]}]",
		} {
			_, err := Parse("tenants.yaml", []byte(strings.ReplaceAll(text, "$", key)))
			if err == nil || strings.Contains(err.Error(), key[4:12]) {
				t.Errorf("%s: %v", text, err)
			}
		}
		for _, text := range []string{key, "=" + key, key + "=a", "a=" + key + "\x00", "a=" + key + "," + "b=" + key, "a=" + key[:10]} {
			if _, err := FromKeys(text); err == nil || strings.Contains(err.Error(), key[4:12]) {
				t.Errorf("from keys: %v", err)
			}
		}
	}
}

func TestKeysFromTheEnvironmentAreHashedAtOnce(t *testing.T) {
	a, b, c := fresh(1), fresh(2), fresh(3)
	all, err := FromKeys("search=" + a + ", lab=" + b + ",search=" + c)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{a: "search", b: "lab", c: "search"} {
		if who, err := all.Find(noon, key); err != nil || who.Name != want {
			t.Errorf("%v, %v, want %s", who, err, want)
		}
	}
	if text := fmt.Sprintf("%+v", all.keys); strings.Contains(text, a) {
		t.Error("a key is kept in the clear")
	}
}

func TestADigestIsWhatSha256sumMakes(t *testing.T) {
	d, err := Hash("abcdefghijklmnopqrstuvwxyz")
	if want := "sha256:71c480df93d6ae2f1efad1447c66c9525e316218cf51fc8d9ed832f2daf18b73"; err != nil || d.String() != want {
		t.Errorf("%v, %v, want %s", d, err, want)
	}
	for _, bad := range []string{"", "hunter2", strings.Repeat("a", 257), "a key with spaces in the middle", "schlüssel-schlüssel-schlüssel"} {
		if _, err := Hash(bad); err == nil {
			t.Errorf("%q was taken for a key", bad)
		}
	}
	if a, b := fresh(1), fresh(2); a == b || len(a) != 46 || !strings.HasPrefix(a, "wp-") {
		t.Errorf("%d bytes", len(a))
	}
}

func FuzzParse(f *testing.F) {
	f.Add(strings.NewReplacer("$1", Digest{1}.String(), "$2", Digest{2}.String(), "$3", Digest{3}.String()).Replace(house))
	f.Add("tenants: [{name: a, keys: [*x, &x y, {digest: [], expires: {}}]}]")
	f.Add("? [a]\n: b\n")
	f.Fuzz(func(t *testing.T, text string) {
		defer leash.Hold(t, len(text))()
		all, err := Parse("f", []byte(text))
		if (all == nil) == (err == nil) {
			t.Errorf("%v, %v", all, err)
		}
		if err == nil {
			for _, who := range all.Tenants() {
				if !(who.Weight > 0) || who.Limits.InFlight < 0 || who.Limits.SpendPerDay < 0 {
					t.Errorf("%+v", who)
				}
			}
		}
	})
}
