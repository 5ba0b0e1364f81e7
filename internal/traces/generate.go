package traces

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// synthetic is the form of generated traces.
const synthetic = "synthetic"

// syntheticBlockTokens is the block of generated traces; lengths are rounded up to whole blocks where they are shared.
const syntheticBlockTokens = 16

// generator makes a whole trace from its settings. All lengths are tokens, all rates are requests a second.
type generator struct {
	what     string
	defaults settings
	make     func(g *making)
	sessions bool // requests follow each other
	untimed  bool // so many sessions run at once
}

type settings map[string]float64

// generators by name.
var generators = map[string]*generator{
	"groups": {what: "groups of prompts that share a system prompt, in random order", defaults: settings{
		"groups": 150, "prompts": 5, "system": 6000, "question": 1200, "output": 1000, "rate": 1}, make: groups},
	"agents": {what: "coding agents: tools and a system prompt that all share, then turn after turn of new text and calls, lengths lognormal as agents' are", defaults: settings{
		"sessions": 100, "turns": 50, "system": 15000, "new": 735, "output": 212, "context": 180000, "think": 8, "at-once": 32}, make: agents, sessions: true, untimed: true},
	"chats": {what: "conversations of several turns, each prompt the one before, its answer and a new question", defaults: settings{
		"chats": 200, "turns": 6, "system": 500, "question": 150, "output": 250, "think": 10, "rate": 1}, make: chats, sessions: true},
	"documents": {what: "long documents, each asked about several times", defaults: settings{
		"documents": 100, "questions": 6, "document": 20000, "question": 100, "output": 200, "rate": 1}, make: documents},
	"bursts": {what: "prompts without reuse, in bursts", defaults: settings{
		"requests": 2000, "burst": 50, "prompt": 2000, "output": 200, "rate": 10}, make: bursts},
	"hot": {what: "one hot prefix with short questions, from cold", defaults: settings{
		"requests": 3000, "shared": 8000, "question": 200, "output": 100, "rate": 10}, make: hot},
	"uniform": {what: "prompts of uniformly random length without reuse, so many at once", defaults: settings{
		"requests": 5000, "prompt": 4000, "output": 400, "at-once": 64}, make: uniform, sessions: true, untimed: true},
}

// Generators describes the synthetic traces with their settings, for help texts.
func Generators() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(generators)) {
		g := generators[name]
		fmt.Fprintf(&b, "  %s:%s\n      %s\n", name, g.defaults, g.what)
	}
	return b.String()
}

// String lists the settings as they are written behind the generator's name.
func (s settings) String() string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(s)) {
		parts = append(parts, key+"="+strconv.FormatFloat(s[key], 'f', -1, 64))
	}
	return strings.Join(parts, ",")
}

func generate(name, kind, text string) (*Trace, error) {
	g := generators[kind]
	values := maps.Clone(g.defaults)
	for part := range strings.SplitSeq(text, ",") {
		if part == "" {
			continue
		}
		key, value, _ := strings.Cut(part, "=")
		v, err := strconv.ParseFloat(value, 64)
		if _, known := values[key]; !known {
			return nil, fmt.Errorf("%s: unknown setting %q; there are: %s", name, key, g.defaults)
		}
		if err != nil || !(v > 0) || v > tokensMax {
			return nil, fmt.Errorf("%s: %s is %q; it is a number above 0, at most %d", name, key, value, tokensMax)
		}
		values[key] = v
	}
	if n, ok := values["at-once"]; ok {
		values["at-once"] = math.Ceil(n)
	}
	return &Trace{
		Untimed: g.untimed, Name: name, Form: synthetic, BlockTokens: syntheticBlockTokens, Sessions: g.sessions,
		open: func(seed uint64) (Reader, error) {
			m := &making{settings: values, random: rand.New(rand.NewPCG(seed, hash(kind)))}
			g.make(m)
			if !g.sessions {
				slices.SortStableFunc(m.all, func(a, b Request) int { return int(a.At - b.At) })
			}
			return &list{all: m.all}, nil
		},
	}, nil
}

// making is one pass being made.
type making struct {
	settings
	random *rand.Rand
	all    []Request
	name   uint64 // the last one given
}

func (m *making) count(key string) int { return int(math.Round(m.settings[key])) }

// tokens is a length that varies by a quarter either way around its setting.
func (m *making) tokens(key string) int {
	return max(1, int(m.settings[key]*(0.75+m.random.Float64()/2)))
}

// fresh returns names that nobody has for so many tokens.
func (m *making) fresh(tokens int) Run {
	r := Run{First: m.name, Count: int32(tokens / syntheticBlockTokens)}
	m.name += uint64(r.Count)
	return r
}

// arrive is a Poisson process: the time after at when the next comes.
func (m *making) arrive(at time.Duration, rate float64) time.Duration {
	return at + time.Duration(m.random.ExpFloat64()/rate*float64(time.Second))
}

// add adds a request that shares the leading runs, whole blocks long, and has so many tokens of its own.
func (m *making) add(r Request, shared []Run, own int) {
	r.Blocks = slices.Clone(shared)
	for _, run := range shared {
		r.Prompt += int(run.Count) * syntheticBlockTokens
	}
	r.Prompt += own
	if own := m.fresh(own); own.Count > 0 {
		r.Blocks = append(r.Blocks, own)
	}
	m.all = append(m.all, r)
}

func groups(m *making) {
	m.askInAnyOrder("groups", "prompts", func() Run { return m.fresh(m.count("system")) }, m.count)
}

// askInAnyOrder asks each of so many shared beginnings so many questions, in random order; draw gives the lengths of a question and its
// answer; beginnings and questions name settings.
func (m *making) askInAnyOrder(beginnings, questions string, begin func() Run, draw func(setting string) int) {
	var order []Run
	for range m.count(beginnings) {
		shared := begin()
		for range m.count(questions) {
			order = append(order, shared)
		}
	}
	m.random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	var at time.Duration
	for _, shared := range order {
		at = m.arrive(at, m.settings["rate"])
		m.add(Request{At: at, Output: draw("output")}, []Run{shared}, draw("question"))
	}
}

func chats(m *making) {
	system := m.fresh(m.count("system"))
	var at time.Duration
	for i := range m.count("chats") {
		at = m.arrive(at, m.settings["rate"])
		talk := []Run{system}
		for turn := range m.count("turns") {
			r := Request{Session: mix(uint64(i) + 1), Output: m.tokens("output"), At: at}
			if turn > 0 {
				r.At, r.Follows = 0, true
				r.Think = time.Duration(m.random.ExpFloat64() * m.settings["think"] * float64(time.Second))
			}
			question := m.tokens("question") / syntheticBlockTokens * syntheticBlockTokens
			m.add(r, talk, question)
			made := &m.all[len(m.all)-1]
			if answer := m.fresh(r.Output); answer.Count > 0 {
				made.Blocks = append(made.Blocks, answer)
			}
			talk = made.Blocks
		}
	}
}

// Spreads of agents' lengths around their medians, in the logarithm: of 26,925 requests of coding agents, nine of ten answers have at most 4.2
// times the median, and a turn's new text varies more.
const (
	agentAnswerSpread = 1.12
	agentNewSpread    = 1.4
)

// lognormal is a length with its setting for a median.
func (m *making) lognormal(key string, spread float64) int {
	return max(1, int(math.Round(m.settings[key]*math.Exp(spread*m.random.NormFloat64()))))
}

func agents(m *making) {
	system := m.fresh(m.count("system"))
	for i := range m.count("sessions") {
		talk := []Run{system}
		for turn := range 1 + int(m.random.ExpFloat64()*m.settings["turns"]) {
			r := Request{Session: mix(uint64(i) + 1), Follows: turn > 0, Output: m.lognormal("output", agentAnswerSpread)}
			if turn > 0 {
				r.Think = time.Duration(m.random.ExpFloat64() * m.settings["think"] * float64(time.Second))
			}
			m.add(r, talk, m.lognormal("new", agentNewSpread)/syntheticBlockTokens*syntheticBlockTokens)
			made := &m.all[len(m.all)-1]
			if made.Prompt+made.Output > m.count("context") { // it is summed up, and another session begins
				m.all = m.all[:len(m.all)-1]
				break
			}
			talk = made.Blocks // the answer comes back among what is new, without what was thought
		}
	}
}

func documents(m *making) {
	m.askInAnyOrder("documents", "questions", func() Run { return m.fresh(m.tokens("document")) }, m.tokens)
}

func bursts(m *making) {
	size := m.count("burst")
	var at time.Duration
	for i := range m.count("requests") {
		if i%size == 0 {
			at = m.arrive(at, m.settings["rate"]/float64(size))
		}
		m.add(Request{At: at, Output: m.tokens("output")}, nil, m.tokens("prompt"))
	}
}

func hot(m *making) {
	shared := m.fresh(m.count("shared"))
	var at time.Duration
	for range m.count("requests") {
		at = m.arrive(at, m.settings["rate"])
		m.add(Request{At: at, Output: m.tokens("output")}, []Run{shared}, m.tokens("question"))
	}
}

// uniform makes as many sessions as are at once, each asking again as soon as it has its answer.
func uniform(m *making) {
	sessions, left := m.count("at-once"), m.count("requests")
	for i := range sessions {
		n := left / (sessions - i)
		left -= n
		for turn := range n {
			r := Request{Session: mix(uint64(i) + 1), Follows: turn > 0, Output: 1 + m.random.IntN(2*m.count("output"))}
			m.add(r, nil, 1+m.random.IntN(2*m.count("prompt")))
		}
	}
}
