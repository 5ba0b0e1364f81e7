package modelfile

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Hugging Face's cache: hub/models--org--name/refs/main names the revision whose files are in hub/models--org--name/snapshots/REVISION,
// as links into blobs.
const (
	hubPrefix  = "models--"
	refMax     = 256 // bytes of a revision's name
	hubDefault = "main"
)

// resolve is the folder that holds the model's files: dir itself, unless it is one of the cache's.
func resolve(dir, model string) (string, error) {
	if exists(filepath.Join(dir, FormJSON)) {
		return dir, nil
	}
	if exists(filepath.Join(dir, "snapshots")) {
		return snapshot(dir)
	}
	if !holdsModels(dir) {
		below := filepath.Join(dir, "hub") // dir is what HF_HOME names
		if !holdsModels(below) {
			return dir, nil
		}
		dir = below
	}
	if model == "" {
		return "", fmt.Errorf("%s is a cache of several models: name one as MODEL=PATH, or its folder %sORG--NAME", dir, hubPrefix)
	}
	name := hubPrefix + strings.ReplaceAll(model, "/", "--")
	if !filepath.IsLocal(name) || strings.ContainsRune(name, filepath.Separator) || !exists(filepath.Join(dir, name)) {
		return "", fmt.Errorf("%s has no %s for the model %q; there are %s: if it is served under another name, give the folder itself", dir, name, model, listed(modelsIn(dir)))
	}
	return snapshot(filepath.Join(dir, name))
}

func holdsModels(dir string) bool { return len(modelsIn(dir)) > 0 }

func modelsIn(dir string) (names []string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), hubPrefix) {
			names = append(names, e.Name())
		}
	}
	return names
}

// snapshot is the folder of the revision that the cache calls main, or of the only one.
func snapshot(dir string) (string, error) {
	all := filepath.Join(dir, "snapshots")
	ref := filepath.Join(dir, "refs", hubDefault)
	text, err := readFile(ref, refMax)
	switch revision := strings.TrimSpace(string(text)); {
	case err == nil && !isName(revision):
		return "", fmt.Errorf("%s names no revision: %q", ref, revision)
	case err == nil && exists(filepath.Join(all, revision)):
		return filepath.Join(all, revision), nil
	case err == nil:
		return "", fmt.Errorf("%s names the revision %s, which %s does not have: download it again, or give the folder of another revision", ref, revision, all)
	case !os.IsNotExist(err):
		return "", err
	}
	entries, err := os.ReadDir(all)
	if err != nil {
		return "", err
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if len(names) != 1 {
		return "", fmt.Errorf("%s has %d revisions (%s) and no %s: give the folder of one", all, len(names), listed(slices.Clone(names)), ref)
	}
	return filepath.Join(all, names[0]), nil
}

// isName is whether s names something in a folder, and nothing outside of it.
func isName(s string) bool {
	return s != "" && s != "." && s != ".." && !strings.ContainsAny(s, "/\\\x00")
}
