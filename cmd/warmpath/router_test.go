package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
)

func TestTheInstallationsSecretIsMadeOnceAndKept(t *testing.T) {
	c := config.Default()
	c.StateDir = filepath.Join(t.TempDir(), "deep", "state")
	first, err := installationSecret(c)
	if err != nil {
		t.Fatal(err)
	}
	second, err := installationSecret(c)
	if err != nil || !bytes.Equal(first, second) {
		t.Errorf("%v: secrets of %d and %d bytes differ", err, len(first), len(second))
	}
	info, err := os.Stat(filepath.Join(c.StateDir, "secret"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v: the secret may be read by others", info.Mode())
	}
}

func TestASecretThatCannotBeKeptStopsOnlyThoseWhoNamedThePlace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := config.Default()
	c.Listen, c.Admin, c.StateDir = "127.0.0.1:0", "", file
	log := &lockedBuffer{}
	if _, err := startRouter(c, newLogger(log, c)); err == nil || !strings.Contains(err.Error(), "state_dir") {
		t.Errorf("started with a secret that cannot be kept where it should: %v", err)
	}
	t.Setenv("XDG_STATE_HOME", file)
	c.StateDir = ""
	r, err := startRouter(c, newLogger(log, c))
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	if !strings.Contains(log.String(), "secret") {
		t.Errorf("nothing was said of it: %s", log.String())
	}
}
