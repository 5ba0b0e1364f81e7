package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheMemoryThatTheProcessMayHaveIsASizeOrFoundOut(t *testing.T) {
	for text, want := range map[string]int64{"auto": 0, "64MiB": 64 << 20, "2GiB": 2 << 30, "1073741824": 1 << 30} {
		c := Default()
		if c.MemoryMax = text; c.Validate() != nil || c.MemoryBytes() != want {
			t.Errorf("%s is %d bytes, %v; want %d", text, c.MemoryBytes(), c.Validate(), want)
		}
	}
	for text, words := range map[string]string{
		"much": `memory_max: "much" is no size; write a whole number with a unit, such as 64MiB or 1GiB, or auto`,
		"8MiB": "memory_max: 8MiB is less than the least, 64MiB; leave it at auto where there is no limit",
		"":     "memory_max",
	} {
		c := Default()
		c.MemoryMax = text
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%q: %v, want %s", text, err, words)
		}
	}
}

func TestTheBoundsOfAFileArrive(t *testing.T) {
	file := filepath.Join(t.TempDir(), "w.yaml")
	text := "workers: [http://gpu-1]\nmemory_max: 2GiB\nconnections_max: 500\nconnections_per_client_max: 20\nlog_lines_max: 9\nbody_spool_max: 8GiB\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(file)
	if err != nil || c.MemoryBytes() != 2<<30 || c.ClientsMax != 500 || c.ClientMax != 20 || c.LogLinesMax != 9 || c.BodySpoolMax != 8<<30 {
		t.Errorf("%v: %s, %d, %d, %d", err, c.MemoryMax, c.ClientsMax, c.ClientMax, c.LogLinesMax)
	}
}
