package delta

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

type secret string

func (s secret) MarshalText() ([]byte, error) {
	return []byte(strings.Repeat("x", min(len(s), 1))), nil
}

type entry struct {
	Name   string  `yaml:"name,scalar"`
	Key    secret  `yaml:"key"`
	URL    string  `yaml:"url"`
	Weight float64 `yaml:"weight"`
}

type nested struct {
	Connect time.Duration `yaml:"connect"`
	Idle    time.Duration `yaml:"idle"`
}

type settings struct {
	Listen  string   `yaml:"listen" change:"restart"`
	File    string   `yaml:"file" change:"presence"`
	Timeout nested   `yaml:"timeouts"`
	Fixed   nested   `yaml:"fixed" change:"restart"`
	Entries []entry  `yaml:"entries"`
	Classes []entry  `yaml:"classes" change:"entries"`
	Labels  []string `yaml:"labels"`
	On      bool     `yaml:"on"`
}

func TestChangesAreToldByKeyWithWhatTheyTake(t *testing.T) {
	full := func() settings {
		return settings{Listen: ":1", File: "a", Timeout: nested{time.Second, time.Minute}, Entries: []entry{{Name: "a", Key: "hush"}, {Name: "b"}},
			Classes: []entry{{Name: "x"}, {Name: "y"}}, Labels: []string{"l=1"}}
	}
	for _, c := range []struct {
		name   string
		change func(*settings)
		want   string // the texts, each with ! before it where it takes a restart
	}{
		{"nothing", func(*settings) {}, ""},
		{"a scalar", func(s *settings) { s.On = true }, "on: false -> true"},
		{"one that needs a restart", func(s *settings) { s.Listen = ":2" }, "!listen: :1 -> :2"},
		{"another file", func(s *settings) { s.File = "b" }, "file: a -> b"},
		{"no file any more", func(s *settings) { s.File = "" }, `!file: a -> ""`},
		{"in a mapping", func(s *settings) { s.Timeout.Connect = 5 * time.Second }, "timeouts.connect: 1s -> 5s"},
		{"in one that needs a restart", func(s *settings) { s.Fixed.Idle = 1 }, "!fixed.idle: 0s -> 1ns"},
		{"an entry's field", func(s *settings) { s.Entries[1].Weight = 0.5 }, "entries[b].weight: 0 -> 0.5"},
		{"a credential", func(s *settings) { s.Entries[0].Key = "other" }, "entries[a].key: changed (not shown)"},
		{"a first credential", func(s *settings) { s.Entries[1].Key = "hush" }, `entries[b].key: "" -> (not shown)`},
		{"added and removed", func(s *settings) { s.Entries = []entry{{Name: "a", Key: "hush"}, {Name: "c", Key: "hush", Weight: 2}} }, "entries[b]: removed\nentries[c]: added {name: c, key: (not shown), weight: 2}"},
		{"order", func(s *settings) { s.Entries[0], s.Entries[1] = s.Entries[1], s.Entries[0] }, "entries: in the order a, b -> in the order b, a"},
		{"fixed entries say something else", func(s *settings) { s.Classes[0].Weight = 3 }, "classes[x].weight: 0 -> 3"},
		{"fixed entries are others", func(s *settings) { s.Classes = s.Classes[:1] }, "!classes[y]: removed"},
		{"fixed entries in another order", func(s *settings) { s.Classes[0], s.Classes[1] = s.Classes[1], s.Classes[0] }, "!classes: in the order x, y -> in the order y, x"},
		{"entries of one name go by place", func(s *settings) { s.Entries[1].Name = "a" }, "entries[1].name: b -> a"},
		{"a list of texts", func(s *settings) { s.Labels = append(s.Labels, "") }, `labels: [l=1] -> [l=1, ""]`},
		{"an address with a credential", func(s *settings) { s.Entries[0].URL = "https://u:p@h/x?key=hush" }, `entries[a].url: "" -> https://(not shown)@h/x?(not shown)`},
	} {
		is := full()
		c.change(&is)
		var got []string
		for _, change := range Of(full(), is, nil) {
			text := change.String()
			if change.Restart {
				text = "!" + text
			}
			got = append(got, text)
		}
		if strings.Join(got, "\n") != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, strings.Join(got, "\n"), c.want)
		}
	}
}

func TestAQueryThatChangedIsToldWithoutItsText(t *testing.T) {
	got := Of(entry{URL: "http://h/?a"}, entry{URL: "http://h/?b"}, nil)
	if len(got) != 1 || got[0].String() != "url: changed (not shown)" {
		t.Errorf("%v", got)
	}
}

func TestWhatIsNotKnownOnOneSideIsLeftOut(t *testing.T) {
	got := Of(entry{Key: "hush", Weight: 1}, entry{Weight: 2}, reflect.TypeFor[secret]())
	if len(got) != 1 || got[0].Key != "weight" || len(Restart(got)) != 0 {
		t.Errorf("%v", got)
	}
}
