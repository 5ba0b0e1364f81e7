package warmpath_test

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// documents are what people read: the Markdown files at the root and under docs.
func documents(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			texts[file] = string(text)
		}
	}
	if len(texts) < 20 {
		t.Fatalf("only %d documents were found", len(texts))
	}
	return texts
}

// prose is a text without what is shown as code in blocks, where brackets are no links and # is no heading.
func prose(text string) string {
	var kept strings.Builder
	fenced := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		} else if !fenced && !strings.HasPrefix(line, "    ") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

var (
	markdownLink = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	htmlLink     = regexp.MustCompile(`(?:src|srcset|href)="([^"]+)"`)
	heading      = regexp.MustCompile(`(?m)^#{1,6} +(.+?) *$`)
	shown        = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
)

// anchors are the names by which GitHub has a document's headings linked to.
func anchors(text string) map[string]bool {
	names := map[string]bool{}
	for _, found := range heading.FindAllStringSubmatch(prose(text), -1) {
		name := strings.Map(func(c rune) rune {
			switch {
			case c == ' ':
				return '-'
			case c == '-', c == '_', unicode.IsLetter(c), unicode.IsDigit(c):
				return unicode.ToLower(c)
			}
			return -1
		}, shown.ReplaceAllString(found[1], "$1"))
		once := name
		for n := 1; names[name]; n++ {
			name = fmt.Sprintf("%s-%d", once, n)
		}
		names[name] = true
	}
	return names
}

func TestEveryLinkBetweenDocumentsLeadsSomewhere(t *testing.T) {
	texts := documents(t)
	followed := 0
	for file, text := range texts {
		links := markdownLink.FindAllStringSubmatch(prose(text), -1)
		for _, link := range append(links, htmlLink.FindAllStringSubmatch(prose(text), -1)...) {
			to, err := url.Parse(link[1])
			if err != nil || to.Scheme != "" {
				continue // another site's: not ours to hold up
			}
			followed++
			target := file
			if to.Path != "" {
				target = filepath.Join(filepath.Dir(file), to.Path)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s: there is no %s", file, link[1], target)
			} else if to.Fragment != "" && !anchors(texts[target])[to.Fragment] {
				t.Errorf("%s links to %s: %s has no such heading", file, link[1], target)
			}
		}
	}
	if followed < 100 {
		t.Errorf("only %d links were followed", followed)
	}
}

func TestTheIndexOfTheDocumentsNamesEachOfThem(t *testing.T) {
	texts := documents(t)
	index := texts["docs/README.md"]
	for file := range texts {
		if name, under := strings.CutPrefix(file, "docs/"); under && name != "README.md" && !strings.Contains(index, "]("+name+")") {
			t.Errorf("docs/README.md does not lead to %s", name)
		}
	}
}

var (
	metricName  = regexp.MustCompile(`\bwarmpath_[a-z0-9_]+\b`)
	settingName = regexp.MustCompile("`([a-z_]+(?:\\[\\])?(?:\\.[a-z_]+(?:\\[\\])?)+)(?:: [^`]*)?`")
	suffix      = regexp.MustCompile(`_(bucket|sum|count)$`)
)

func TestEveryMetricAndSettingInTheDocumentsExists(t *testing.T) {
	texts := documents(t)
	settings := map[string]bool{} // the first parts of those of several parts
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)(?:\\[\\])?\\.").FindAllStringSubmatch(texts["docs/CONFIG.md"], -1) {
		settings[row[1]] = true
	}
	for file, text := range texts {
		if file == "CHANGELOG.md" { // tells of what there was
			continue
		}
		for _, name := range metricName.FindAllString(text, -1) {
			if !strings.Contains(texts["docs/METRICS.md"], "`"+suffix.ReplaceAllString(name, "")+"`") && !strings.Contains(text, name+"*") && !strings.HasSuffix(name, "_") {
				t.Errorf("%s names the metric %s, which docs/METRICS.md does not have", file, name)
			}
		}
		for _, found := range settingName.FindAllStringSubmatch(text, -1) {
			first, _, _ := strings.Cut(found[1], ".")
			first = strings.TrimSuffix(first, "[]")
			if file == "docs/ADMIN.md" || strings.HasSuffix(found[1], ".yaml") { // fields of /state that are called like settings; files
				continue
			}
			if settings[first] && !strings.Contains(texts["docs/CONFIG.md"], "`"+found[1]+"`") {
				t.Errorf("%s names the setting %s, which docs/CONFIG.md does not have", file, found[1])
			}
		}
	}
}
