package guard

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/warmpath/warmpath/internal/tenant"
)

// Access is who may use the admin port, as settings have it.
type Access struct {
	Tokens []Entry  `yaml:"tokens" doc:"Who may come in. None: everybody who reaches the port, which then has to be on this machine, or to ask for certificates (admin_tls.client_ca)."`
	Hosts  []string `yaml:"hosts" doc:"Names that the port answers to without a token, beside addresses, localhost and this machine's own name. Another name may be a web page's that was made to point here."`
	Open   bool     `yaml:"open" doc:"Let everybody in who reaches the port, also from beyond this machine: for networks in which all may drain workers and read the state."`
}

// Entry is one token, which is written in one of three ways.
type Entry struct {
	Name   string `yaml:"name" doc:"What it is called in messages."`
	Role   string `yaml:"role" enum:"read,operate,register" doc:"read: /state, /metrics, /explain. operate: also workers, draining, the policy, profiles. register: engines that register themselves, and nothing else."`
	Digest string `yaml:"digest" doc:"sha256: and the token's SHA-256 in hexadecimal digits, as warmpath tenant key prints it."`
	Env    string `yaml:"env" doc:"Environment variable that holds the token, 22 characters at least."`
	File   string `yaml:"file" doc:"File that holds the token, or its digest. It is read again when it changes."`
}

// Problem is one thing wrong with an Access; Key is below it, such as tokens[1].role.
type Problem struct{ Key, Message string }

// Check says what is wrong with the settings themselves. It repeats nothing that may be a token.
func (a Access) Check() (wrong []Problem) {
	add := func(key, format string, args ...any) {
		wrong = append(wrong, Problem{key, fmt.Sprintf(format, args...)})
	}
	var names []string
	for i, t := range a.Tokens {
		key := "tokens[" + strconv.Itoa(i) + "]"
		if t.Name == "" {
			add(key+".name", "is missing; it says in messages which token it was")
		}
		if slices.Contains(names, t.Name) {
			add(key+".name", "%q is another token's name already", t.Name)
		}
		names = append(names, t.Name)
		ways := 0
		for _, way := range []string{t.Digest, t.Env, t.File} {
			if way != "" {
				ways++
			}
		}
		if ways != 1 {
			add(key, "needs one of digest, env and file, and has %d of them", ways)
		} else if t.Digest != "" {
			if _, err := tenant.ParseDigest(t.Digest); err != nil {
				add(key+".digest", "%v", err)
			}
		}
	}
	for i, name := range a.Hosts {
		if strings.ContainsAny(name, ":/* ") || name == "" {
			add("hosts["+strconv.Itoa(i)+"]", "%q is no name; write it without scheme, port or star, such as router.internal", name)
		}
	}
	return wrong
}

// Token is what is kept of an entry, whose token or digest text is where it is not in the settings.
func (e Entry) Token(text string) (Token, error) {
	if e.Digest != "" {
		text = e.Digest
	}
	t := Token{Name: e.Name, Role: Roles[e.Role]}
	var err error
	if text = strings.TrimSpace(text); strings.HasPrefix(text, "sha256:") {
		t.Digest, err = tenant.ParseDigest(text)
	} else {
		t.Digest, err = tenant.Hash(text)
	}
	if t.Role == None {
		err = errors.Join(err, fmt.Errorf("there is no role %q", e.Role))
	}
	return t, err
}
