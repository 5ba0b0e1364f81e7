package config

import (
	"strings"
	"testing"
)

func TestASampleOfBlocksIsAShare(t *testing.T) {
	for _, value := range []string{"0", "0.0001", "1.5"} {
		_, err := Parse("w.yaml", []byte("ghosts: {sample: "+value+"}"), env(nil))
		if err == nil || !strings.Contains(err.Error(), "w.yaml:1: ghosts.sample: ") || !strings.Contains(err.Error(), "from 0.001 to 1") {
			t.Errorf("%s: %v", value, err)
		}
	}
}
