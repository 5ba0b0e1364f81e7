package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/tenant"
)

// What tenants spent today is kept over a restart, in the state folder.

// spentEvery is how often it is written, when it has changed: what a crash forgets is what was spent since.
const spentEvery = 2 * time.Second

// spentFile is the file of this router among others that share the folder.
func (r *router) spentFile() (string, error) {
	folder, err := r.settings().StateFolder()
	if err != nil {
		return "", err
	}
	return filepath.Join(folder, "spent-"+r.ownName()+".json"), nil
}

// ownName tells this router's files from those of others that share the state folder: by the address that it listens on.
func (r *router) ownName() string {
	return strings.NewReplacer(":", "_", "/", "_", "[", "", "]", "").Replace(r.settings().Listen)
}

// restoreSpent takes back what was spent today before the restart. What cannot be read counts as nothing spent, and is told.
func (r *router) restoreSpent() {
	if r.came.From() != 0 { // the process before says how it is, which is newer than the file
		r.desk.Restore(time.Now(), r.inherited.Spent)
		return
	}
	file, err := r.spentFile()
	if err != nil || r.settings().Tenants.File == "" {
		return // keepSpent says so, once there is something to keep
	}
	text, err := os.ReadFile(file)
	var kept tenant.Spent
	if err == nil {
		err = json.Unmarshal(text, &kept)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		r.log.Warn("what tenants spent today before the restart cannot be read: limits spend_per_day begin anew", "file", file, "error", err)
	default:
		r.desk.Restore(time.Now(), kept)
	}
}

// keepSpent writes what tenants spent until ctx is done. Close writes it once more, when the last request has been settled.
func (r *router) keepSpent(ctx context.Context) error {
	told := false
	t := time.NewTicker(spentEvery)
	defer t.Stop()
	for last := ""; ; {
		select {
		case <-t.C:
		case <-ctx.Done():
			return nil
		}
		var err error
		if last, err = r.writeSpent(last); err != nil && !told {
			told = true
			r.log.Warn("what tenants spent today cannot be kept: after a restart limits spend_per_day begin anew", "error", err)
		}
	}
}

// writeSpent writes it unless it is what was written last, and returns what is in the file now.
func (r *router) writeSpent(last string) (string, error) {
	spent, some := r.desk.Spent(time.Now())
	if !some || r.succession.silent.Load() {
		return last, nil
	}
	text, err := json.Marshal(spent)
	if err != nil || string(text) == last {
		return last, err
	}
	file, err := r.spentFile()
	if err == nil {
		err = replaceFile(file, append(text, '\n'))
	}
	if err != nil {
		return last, err
	}
	return string(text), nil
}

// replaceFile writes a file whole or not at all, in place of one that may be there.
func replaceFile(file string, content []byte) error {
	temporary, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name())
	if _, err = temporary.Write(content); err == nil {
		err = temporary.Sync()
	}
	if closed := temporary.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(temporary.Name(), file)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}
