package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/warmpath/warmpath/internal/repick"
)

// picksLeast is the share of choices that must come out the same: a log below it does not say why workers were chosen.
const picksLeast = 0.999

// replayPicks makes the choices of decision logs again. Nothing is simulated: a record's own rows are all it goes by.
func replayPicks(files, more []string, skipBad, asJSON bool, stdout io.Writer) error {
	if len(files) == 0 || len(more) > 0 {
		return usageError{errors.New("--picks makes the choices of decision logs again, and of nothing else: name them by --log")}
	}
	var t repick.Tally
	bad := 0
	for _, file := range files {
		n, err := eachRecord(file, skipBad, t.Add)
		if err != nil {
			return err
		}
		bad += n
	}
	if err := printPicks(stdout, &t, bad, asJSON); err != nil {
		return err
	}
	if share := t.Share(); share < picksLeast {
		return fmt.Errorf("%.3f %% of the choices came out the same, less than %.1f %%", 100*share, 100*picksLeast)
	}
	return nil
}

func printPicks(w io.Writer, t *repick.Tally, bad int, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(struct {
			*repick.Tally
			Share float64 `json:"share"`
			Bad   int     `json:"bad_lines"`
		}{t, t.Share(), bad})
	}
	fmt.Fprintf(w, "%s: %s made again, %d of them the same (%.3f %%), %d of these between equals, where the log tells what chance brought\n",
		counted(t.Records, "record"), counted(t.Checked, "choice"), t.Same, 100*t.Share(), t.ByChance)
	for _, left := range []struct {
		n    int
		what string
	}{
		{t.Unplaced, "that no worker was chosen for"}, {t.OtherRules, "chosen by something else than a comparison of scores"},
		{t.Older, "of a router that did not log enough"}, {bad, "lines that cannot be read"},
	} {
		if left.n > 0 {
			fmt.Fprintf(w, "left out: %d %s\n", left.n, left.what)
		}
	}
	for _, d := range t.Different {
		fmt.Fprintf(w, "differs: %s went to %s, its rows lead to %s\n", plain(d.ID), plain(d.Said), plain(d.Made))
	}
	return nil
}
