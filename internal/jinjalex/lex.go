// Package jinjalex cuts a Jinja template into tokens and removes the white space that its tags take with them.
//
//	tokens, err := jinjalex.Lex("{%- if x %}yes{% endif %}")
package jinjalex

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// SyntaxError is what is wrong with a template.
type SyntaxError struct {
	Line    int
	What    string
	Unknown bool // it may be fine elsewhere: What is not known here
}

func (e *SyntaxError) Error() string {
	if e.Unknown {
		return fmt.Sprintf("line %d of the template: %s is not known here", e.Line, e.What)
	}
	return fmt.Sprintf("line %d of the template: %s", e.Line, e.What)
}

// Kind tells tokens apart.
type Kind uint8

// Data is text between tags; the Begins and Ends are the tags' braces; the others stand inside tags.
const (
	Data Kind = iota
	VarBegin
	VarEnd
	BlockBegin
	BlockEnd
	Name
	Str
	Integer
	Float
	Op
	EOF
)

// TagTokensMax bounds how many tokens one tag has, and with that how deep the expression in it nests. The longest in use have some hundred.
const TagTokensMax = 2000

// Token is one.
type Token struct {
	Kind Kind
	Text string // of a string literal: its value
	Line int
}

// lexer cuts a template into tokens, with trim_blocks and lstrip_blocks on and keep_trailing_newline off, as engines set them. The rules are
// those of Jinja2's lexer.py.
type lexer struct {
	src       string
	at        int
	tokens    []Token
	lineStart bool // what was read last ended a line
	counted   int  // bytes whose lines are in line
	line      int
}

// Lex cuts a template; the last token is EOF. Its error is a *SyntaxError.
func Lex(source string) ([]Token, error) {
	source = strings.ReplaceAll(strings.ReplaceAll(source, "\r\n", "\n"), "\r", "\n")
	l := &lexer{src: strings.TrimSuffix(source, "\n"), lineStart: true, line: 1}
	for l.at < len(l.src) {
		if err := l.root(); err != nil {
			return nil, err
		}
	}
	l.add(EOF, "")
	return l.tokens, nil
}

func (l *lexer) add(kind Kind, text string) {
	at := min(l.at, len(l.src))
	if at > l.counted {
		l.line += strings.Count(l.src[l.counted:at], "\n")
		l.counted = at
	}
	l.tokens = append(l.tokens, Token{kind, text, l.line})
}

func (l *lexer) fail(format string, args ...any) error {
	l.add(EOF, "")
	return &SyntaxError{Line: l.line, What: fmt.Sprintf(format, args...)}
}

// root reads text up to the next tag, and the tag.
func (l *lexer) root() error {
	rest := l.src[l.at:]
	open := nextTag(rest)
	if open < 0 {
		l.add(Data, rest)
		l.at = len(l.src)
		return nil
	}
	kind := rest[open+1]
	text, after := rest[:open], open+2
	sign := byte(0)
	if after < len(rest) && (rest[after] == '-' || rest[after] == '+') {
		sign = rest[after]
		after++
	}
	switch {
	case sign == '-':
		text = strings.TrimRightFunc(text, Space)
	case sign == 0 && kind != '{':
		if from := strings.LastIndexByte(text, '\n') + 1; (from > 0 || l.lineStart) && strings.TrimFunc(text[from:], Space) == "" {
			text = text[:from]
		}
	}
	if text != "" {
		l.add(Data, text)
	}
	l.at += after
	switch kind {
	case '#':
		return l.comment()
	case '{':
		l.add(VarBegin, "")
		return l.inside("}}", VarEnd)
	}
	if end, ok := tagEnd(l.src[l.at:], "raw"); ok {
		l.skipBehind(end)
		return l.raw()
	}
	l.add(BlockBegin, "")
	return l.inside("%}", BlockEnd)
}

// nextTag is where the next tag of any kind opens, below 0 for none.
func nextTag(s string) int {
	for from := 0; ; {
		i := strings.IndexByte(s[from:], '{')
		if i < 0 || from+i+1 >= len(s) {
			return -1
		}
		i += from
		if c := s[i+1]; c == '{' || c == '%' || c == '#' {
			return i
		}
		from = i + 1
	}
}

func (l *lexer) comment() error {
	end := strings.Index(l.src[l.at:], "#}")
	if end < 0 {
		return l.fail("a comment is not closed")
	}
	sign := byte(0)
	if end > 0 {
		sign = l.src[l.at+end-1]
	}
	l.at += end + 2
	l.closed(sign, true)
	return nil
}

// closed eats what a tag's end takes with it: all white space for "-", else a block's or comment's line break, unless "+" keeps it.
func (l *lexer) closed(sign byte, block bool) {
	l.lineStart = false
	switch {
	case sign == '-':
		rest := l.src[l.at:]
		trimmed := strings.TrimLeftFunc(rest, Space)
		eaten := rest[:len(rest)-len(trimmed)]
		l.at += len(eaten)
		l.lineStart = strings.HasSuffix(eaten, "\n")
	case block && sign != '+' && strings.HasPrefix(l.src[l.at:], "\n"):
		l.at++
		l.lineStart = true
	}
}

// tagEnd reads the rest of a tag that holds one word alone; end is the length with the closing sign and braces.
func tagEnd(s, word string) (end int, ok bool) {
	trimmed := strings.TrimLeftFunc(s, Space)
	rest, ok := strings.CutPrefix(trimmed, word)
	if !ok {
		return 0, false
	}
	rest = strings.TrimLeftFunc(rest, Space)
	if rest != "" && (rest[0] == '-' || rest[0] == '+') {
		rest = rest[1:]
	}
	rest, ok = strings.CutPrefix(rest, "%}")
	return len(s) - len(rest), ok
}

func (l *lexer) skipBehind(end int) {
	sign := l.src[l.at+end-3]
	l.at += end
	l.closed(sign, true)
}

func (l *lexer) raw() error {
	for from := l.at; ; {
		i := strings.Index(l.src[from:], "{%")
		if i < 0 {
			return l.fail("raw is not closed")
		}
		i += from
		tag := i + 2
		sign := byte(0)
		if tag < len(l.src) && (l.src[tag] == '-' || l.src[tag] == '+') {
			sign = l.src[tag]
			tag++
		}
		end, ok := tagEnd(l.src[tag:], "endraw")
		if !ok {
			from = i + 2
			continue
		}
		text := l.src[l.at:i]
		if sign == '-' {
			text = strings.TrimRightFunc(text, Space)
		} else if start := strings.LastIndexByte(text, '\n') + 1; sign == 0 && (start > 0 || l.lineStart) && strings.TrimFunc(text[start:], Space) == "" {
			text = text[:start]
		}
		l.add(Data, text)
		l.at = tag
		l.skipBehind(end)
		return nil
	}
}

// inside reads a tag's tokens up to its end, which counts only outside brackets.
func (l *lexer) inside(end string, kind Kind) error {
	var brackets []byte
	for before := len(l.tokens); l.at < len(l.src); {
		if len(l.tokens)-before > TagTokensMax {
			return l.fail("a tag of more than %d words and signs", TagTokensMax)
		}
		rest := l.src[l.at:]
		if len(brackets) == 0 {
			if sign, n := closing(rest, end); n > 0 {
				l.add(kind, "")
				l.at += n
				l.closed(sign, kind == BlockEnd)
				return nil
			}
		}
		r, size := utf8.DecodeRuneInString(rest)
		var err error
		switch {
		case Space(r):
			l.at += size
		case r == '\'' || r == '"':
			err = l.quoted(byte(r))
		case r >= '0' && r <= '9':
			err = l.number()
		case r == '_' || unicode.IsLetter(r):
			n := strings.IndexFunc(rest, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
			if n < 0 {
				n = len(rest)
			}
			l.add(Name, rest[:n])
			l.at += n
		default:
			brackets, err = l.operator(rest, brackets)
		}
		if err != nil {
			return err
		}
	}
	return l.fail("a tag is not closed with %q", end)
}

func closing(s, end string) (sign byte, n int) {
	if strings.HasPrefix(s, end) {
		return 0, 2
	}
	if s[0] == '-' && strings.HasPrefix(s[1:], end) {
		return '-', 3
	}
	if s[0] == '+' && end == "%}" && strings.HasPrefix(s[1:], end) {
		return '+', 3
	}
	return 0, 0
}

var operators = []string{"**", "//", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<", "=", ".", ":", "|", ",", ";"}

func (l *lexer) operator(rest string, brackets []byte) ([]byte, error) {
	for _, o := range operators {
		if !strings.HasPrefix(rest, o) {
			continue
		}
		switch o {
		case "(":
			brackets = append(brackets, ')')
		case "[":
			brackets = append(brackets, ']')
		case "{":
			brackets = append(brackets, '}')
		case ")", "]", "}":
			if len(brackets) == 0 || brackets[len(brackets)-1] != o[0] {
				return nil, l.fail("unexpected %q", o)
			}
			brackets = brackets[:len(brackets)-1]
		}
		l.add(Op, o)
		l.at += len(o)
		return brackets, nil
	}
	return nil, l.fail("unexpected character %q", rest[:min(len(rest), 4)])
}

func (l *lexer) number() error {
	rest := l.src[l.at:]
	digits := func(i int) int {
		for i < len(rest) && (rest[i] >= '0' && rest[i] <= '9' || rest[i] == '_') {
			i++
		}
		return i
	}
	n, kind := digits(0), Integer
	// "a.0.1" is two steps, so that a dot in front makes no fraction.
	dotted := len(l.tokens) > 0 && l.tokens[len(l.tokens)-1] == Token{Op, ".", l.tokens[len(l.tokens)-1].Line}
	if !dotted && n+1 < len(rest) && rest[n] == '.' && rest[n+1] >= '0' && rest[n+1] <= '9' {
		n, kind = digits(n+1), Float
	}
	if e := n; e < len(rest) && (rest[e] == 'e' || rest[e] == 'E') {
		e++
		if e < len(rest) && (rest[e] == '+' || rest[e] == '-') {
			e++
		}
		if end := digits(e); end > e {
			n, kind = end, Float
		}
	}
	if n < len(rest) && strings.ContainsRune("xXoObB", rune(rest[n])) && rest[:n] == "0" {
		return l.fail("numbers of another base than ten are not known here")
	}
	l.add(kind, strings.ReplaceAll(rest[:n], "_", ""))
	l.at += n
	return nil
}

func (l *lexer) quoted(quote byte) error {
	rest := l.src[l.at:]
	for i := 1; i < len(rest); i++ {
		switch rest[i] {
		case '\\':
			i++
		case quote:
			text, err := unescape(rest[1:i])
			if err != nil {
				return l.fail("%v", err)
			}
			l.add(Str, text)
			l.at += i + 1
			return nil
		}
	}
	return l.fail("a string is not closed")
}
