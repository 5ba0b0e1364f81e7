package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/term"
)

// The terminal of `warmpath top`: what is drawn, and what keys say.

// Escape sequences that every terminal of this century knows (ECMA-48, and xterm's second screen).
const (
	screenBegin = "\x1b[?1049h\x1b[?25l\x1b[H\x1b[2J"
	screenEnd   = "\x1b[?25h\x1b[?1049l"
	screenHome  = "\x1b[H"
	clearLine   = "\x1b[K"
	clearBelow  = "\x1b[J"
)

// live draws until q is pressed or ctx is done. The terminal is given back as it was, whatever happens.
func (f *topFlags) live(ctx context.Context, out *os.File, v topView) error {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0) // its reads end when it is closed, those of standard input may not
	if err != nil {
		return fmt.Errorf("there is no terminal to read keys from: %w; use --once or --json", err)
	}
	fd := int(out.Fd())
	before, err := term.MakeRaw(fd)
	if err != nil {
		tty.Close()
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer func() {
		stop()
		tty.Close()
		term.Restore(fd, before)
		fmt.Fprint(out, screenEnd)
		running.Wait()
	}()
	fmt.Fprint(out, screenBegin)
	told, keys, resized, done := make(chan news), make(chan string), make(chan os.Signal, 1), make(chan string, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)
	running.Go(func() { f.listen(ctx, told) })
	running.Go(func() { readKeys(ctx, tty, keys) })
	v.colour = wantsColour(out)
	for {
		v.draw(out, fd)
		select {
		case <-ctx.Done():
			return nil
		case <-resized:
		case n := <-told:
			if n.err != nil && hopeless(n.err) {
				return n.err
			}
			v.hear(n)
		case v.message = <-done:
		case key := <-keys:
			what, worker := v.press(key)
			switch what {
			case "quit":
				return nil
			case "drain", "undrain":
				v.message = what + " " + worker + " ..."
				running.Go(func() { done <- f.command(ctx, what, worker) })
			}
		}
	}
}

// draw fills the screen.
func (v *topView) draw(out *os.File, fd int) {
	width, height, err := term.GetSize(fd)
	if err != nil || width < 1 || height < 1 {
		width, height = 80, 24
	}
	fmt.Fprint(out, screenHome+strings.Join(v.screen(width, height), clearLine+"\r\n")+clearLine+clearBelow)
}

// readKeys tells each key by its name or its letter, until the terminal is closed.
func readKeys(ctx context.Context, tty *os.File, keys chan<- string) {
	room := make([]byte, 64)
	for {
		n, err := tty.Read(room)
		if err != nil {
			return
		}
		for _, key := range keysIn(string(room[:n])) {
			select {
			case keys <- key:
			case <-ctx.Done():
				return
			}
		}
	}
}

// escapes are the sequences of keys without a letter.
var escapes = map[string]string{"\x1b[A": "up", "\x1b[B": "down", "\x1bOA": "up", "\x1bOB": "down", "\x1b[5~": "page up", "\x1b[6~": "page down",
	"\x1b[H": "home", "\x1b[F": "end", "\x1b[1~": "home", "\x1b[4~": "end", "\x1bOH": "home", "\x1bOF": "end"}

// keysIn names the keys in what a terminal sent.
func keysIn(text string) (keys []string) {
	for text != "" {
		length := 1
		key := text[:1]
		for sequence, name := range escapes {
			if strings.HasPrefix(text, sequence) {
				length, key = len(sequence), name
			}
		}
		if key == "\x03" || key == "\x04" { // Ctrl-C and Ctrl-D: in raw mode nobody else hears them
			key = "q"
		}
		keys, text = append(keys, key), text[length:]
	}
	return keys
}
