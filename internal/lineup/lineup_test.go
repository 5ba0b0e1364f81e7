package lineup

import (
	"slices"
	"strings"
	"testing"
)

func TestAFleetIsNamedAsItIsWritten(t *testing.T) {
	for _, text := range []string{"h100-8b:4", "h100-8b:6@short,h100-8b:2@long", "a100-8b:1@role=long+zone=a,a100-8b:1"} {
		fleet, err := Parse(text, nil)
		if err != nil || Name(fleet) != text {
			t.Errorf("%s: %v, %v", text, Name(fleet), err)
		}
	}
}

func TestLabelsAreKeysAndValuesAndANameAloneIsAPool(t *testing.T) {
	fleet, err := Parse("h100-8b@long+zone=a", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := fleet[0].Labels(); !slices.Equal(got, []string{"pool=long", "zone=a"}) || fleet[0].Label("zone") != "a" || fleet[0].Label("role") != "" {
		t.Errorf("%q", got)
	}
}

func TestScalingKeepsProportionsAndLabels(t *testing.T) {
	fleet, err := Parse("h100-8b:6@short,a100-8b:2@long", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := Name(Scale(fleet, 4)); got != "h100-8b:3@short,a100-8b:1@long" {
		t.Error(got)
	}
}

func TestAFleetThatIsNoneIsRefusedWithTheReason(t *testing.T) {
	for text, want := range map[string]string{
		"": "unknown profile", "h100": "there are: ", "h100-8b:0": "from 1 to 1000", "h100-8b:x": "from 1 to 1000", "h100-8b:999,a100-8b:9": "more than 1000",
		"h100-8b:2@": "no labels", "h100-8b@role=": "no labels", "h100-8b@=long": "no labels", "h100-8b@a++b": "no labels",
	} {
		if _, err := Parse(text, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("fleet %q: %v, want %q in it", text, err, want)
		}
	}
}
