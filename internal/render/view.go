package render

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/internal/chat"
	"github.com/warmpath/warmpath/internal/llmapi"
	"github.com/warmpath/warmpath/internal/tokenask"
)

// model is what is kept of a model beyond one look. Guarded by Manager.mu, save counts.
type model struct {
	files  *files // nil: none known
	counts *counts
}

// counts are of one model since it came.
type counts struct {
	requests, exact, told                     atomic.Uint64
	asked, cached, late, failed, full, checks atomic.Uint64
	mismatches                                atomic.Uint64
	sampled, pointed                          atomic.Int64 // when, in nanoseconds since 1970
	turn                                      atomic.Uint32
}

// view is what requests for one model go by. It never changes.
type view struct {
	name         string
	mode         Mode
	why          string
	source       string
	own          *own // nil: not at hand or not proven
	proof        proof
	calendar     calendar
	form         *tokenask.Form // of all engines that can be asked; nil where they differ or there are none
	engines      []*worker      // that can be asked and say the same
	chats, texts bool           // what they can be asked about
	checked      time.Time
	workers      []WorkerState
	counts       *counts
}

// takes is whether what engines make of such requests is known at all.
func (v *view) takes(api llmapi.API) bool {
	return api == llmapi.Chat || api == llmapi.Completions || v.form != nil && v.form.Converts
}

// filesOf are the files of a model, read: those that are configured, else those that this or an earlier worker named, if they are here.
func (m *Manager) filesOf(name string, w *worker) *files {
	path, configured := m.o.Files[name]
	if !configured {
		path = readable(w.target.path)
	}
	m.mu.Lock()
	was := m.model(name).files
	m.mu.Unlock()
	changed := was != nil && was.changed()
	m.mu.Lock()
	md := m.model(name)
	if changed && md.files == was {
		delete(m.files, was.fileKey)
		md.files = nil
	}
	if md.files == nil && path != "" {
		md.files = m.file(fileKey{path, name})
	}
	f := md.files
	m.mu.Unlock()
	if f == nil {
		return nil
	}
	if f.load(&m.o).err == nil || configured || path == "" || path == f.path {
		return f
	}
	m.mu.Lock()
	md.files = m.file(fileKey{path, name})
	f = md.files
	m.mu.Unlock()
	f.load(&m.o)
	return f
}

// model and file are called with mu held.
func (m *Manager) model(name string) *model {
	if m.models[name] == nil {
		m.models[name] = &model{counts: &counts{}}
	}
	return m.models[name]
}

func (m *Manager) file(key fileKey) *files {
	if m.files[key] == nil {
		m.files[key] = &files{fileKey: key}
	}
	return m.files[key]
}

// look makes the views of all models, and tells the state of each.
func (m *Manager) look() (map[string]*view, []State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	serving := map[string][]*worker{}
	for _, id := range slices.Sorted(maps.Keys(m.workers)) {
		w := m.workers[id]
		for _, name := range w.names {
			serving[name] = append(serving[name], w)
		}
	}
	views := map[string]*view{}
	var states []State
	for _, name := range slices.Sorted(maps.Keys(serving)) {
		views[name] = m.view(name, serving[name])
		states = append(states, views[name].state())
	}
	for _, id := range slices.Sorted(maps.Keys(m.workers)) { // other names of the same
		for _, model := range m.workers[id].models {
			for _, name := range append(model.Aliases[:len(model.Aliases):len(model.Aliases)], model.ID) {
				of := model.ID
				if model.Parent != "" {
					of = model.Parent
				}
				if v := views[of]; v != nil && views[name] == nil {
					views[name] = v
				}
			}
		}
	}
	maps.DeleteFunc(m.models, func(name string, _ *model) bool { return serving[name] == nil })
	maps.DeleteFunc(m.files, func(_ fileKey, f *files) bool {
		return !slices.ContainsFunc(slices.Collect(maps.Values(m.models)), func(md *model) bool { return md.files == f })
	})
	return views, states
}

// view is that of one model and the workers that serve it.
func (m *Manager) view(name string, workers []*worker) *view {
	md := m.model(name)
	v := &view{name: name, counts: md.counts, mode: Approximate}
	var doubts, silent []string // what speaks against our own tokens, and who does not answer
	var agree, differ int
	same := true
	for _, w := range workers {
		s := WorkerState{ID: w.target.id}
		switch {
		case w.heard == nil && w.err == nil:
			s.Why, s.Pending = "it is being asked", true
		case w.heard == nil:
			s.Why = w.err.Error()
			silent = append(silent, w.target.id+": "+s.Why)
		default:
			s.Form = w.heard.form.Name
			v.engines = append(v.engines, w)
			v.checked = later(v.checked, w.heard.at)
			same = same && w.heard.digest == v.engines[0].heard.digest
			if doubt, judged := m.weigh(v, md, w, agree); doubt != "" {
				differ++
				s.Why = doubt
				doubts = append(doubts, w.target.id+": "+doubt)
			} else if judged {
				agree++
				s.Agrees = true
			}
		}
		v.workers = append(v.workers, s)
	}
	v.offer(same)
	if agree > 0 && differ == 0 {
		v.own, v.source = md.files.ours(), md.files.path
	}
	switch {
	case v.own != nil && (v.proof.chats || v.own.model.Template == nil && !v.chats):
		v.mode = Exact
	case v.chats || v.texts && v.own == nil:
		v.mode, v.source = EngineSide, v.engines[0].target.id
	}
	v.why = m.because(v, md, doubts, silent, same)
	return v
}

// weigh takes what one engine says about our own tokens into the view: what speaks against them, "" when nothing does, and whether it was
// asked about these files at all. agree counts those that spoke for them before.
func (m *Manager) weigh(v *view, md *model, w *worker, agree int) (doubt string, judged bool) {
	if md.files.ours() == nil {
		return "", false
	}
	verdict, judged := w.verdicts[md.files]
	if !judged {
		w.again() // these files became the model's after it was asked
		return "", false
	}
	p := verdict.proof
	p.wrong = append(slices.Clone(p.wrong), w.live...)
	p.texts = p.texts && !w.liveText
	p.chats = p.chats && !slices.Contains(p.wrong, 0)
	chats, texts := w.heard.offers()
	switch {
	case w.liveWhy != "" && !p.chats:
		return w.liveWhy, true
	case chats && !p.chats && md.files.ours().model.Template != nil, !chats && texts && !p.texts, verdict.agreed == 0:
		if verdict.first == "" {
			verdict.first = "it answers too few conversations to show anything"
		}
		return verdict.first, true
	}
	if agree == 0 {
		v.proof, v.calendar = p, verdict.calendar
	} else {
		v.proof, v.calendar = v.proof.and(p), v.calendar.common(verdict.calendar)
	}
	return "", true
}

// offer is what all engines that answer can be asked about for requests, where they agree with each other.
func (v *view) offer(same bool) {
	if len(v.engines) == 0 || !same {
		v.engines = nil
		return
	}
	v.form, v.chats, v.texts = v.engines[0].heard.form, true, true
	for _, w := range v.engines {
		chats, texts := w.heard.offers()
		v.chats, v.texts = v.chats && chats, v.texts && texts
		if w.heard.form.Blind != 0 {
			v.form = w.heard.form // the least telling one counts
		}
	}
}

// because is a sentence on why the mode is what it is, with what would make it better.
func (m *Manager) because(v *view, md *model, doubts, silent []string, same bool) string {
	what := "no files of the model are known (flag --tokenizer " + v.name + "=PATH)"
	named, configured := m.o.Files[v.name]
	if configured {
		what = fmt.Sprintf("nothing has shown yet that the files in %s are right", named)
	}
	switch {
	case md.files != nil && md.files.read.Load() != nil && md.files.read.Load().err != nil:
		where := ", where the engine has them (flag --tokenizer " + v.name + "=PATH names others)"
		if configured {
			where = " (flag --tokenizer " + v.name + "=" + named + ")"
		}
		what = fmt.Sprintf("the files in %s%s cannot be used: %v", md.files.path, where, md.files.read.Load().err)
	case len(doubts) > 0:
		what = fmt.Sprintf("the files in %s make other tokens than the engine: %s; name the files that it was started with (flag --tokenizer %s=PATH)", md.files.path, doubts[0], v.name)
	case v.own != nil && v.own.model.Template == nil:
		what = fmt.Sprintf("with the files in %s texts become tokens here, chats do not: %s", v.source, v.own.model.TemplateWhy)
	case v.own != nil:
		what = fmt.Sprintf("the files in %s are shown to be right for texts, not for chats, about which the engine says nothing or too little", md.files.path)
	case md.files != nil:
		what = fmt.Sprintf("nothing has shown yet that the files in %s are right", md.files.path)
	}
	switch v.mode {
	case Exact:
		if odd := gaps(v.proof); len(odd) > 0 {
			return "engines make the same tokens of the built-in conversations, except in requests with " + strings.Join(odd, ", ")
		}
		return "engines make the same tokens of the built-in conversations"
	case EngineSide:
		return "an engine is asked for each new prompt: " + what
	}
	switch {
	case len(v.workers) > 0 && len(silent) == len(v.workers):
		return what + "; and no worker can be asked (" + silent[0] + ")"
	case !same:
		return what + "; and workers make different tokens of the same conversations: serve one build of the model under one name"
	}
	return what
}

// gaps are the features of requests that stay without proof.
func gaps(p proof) []string {
	open := ^p.proven & (chat.Strange - 1)
	for _, w := range p.wrong {
		open |= w
	}
	return open.Words()
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
