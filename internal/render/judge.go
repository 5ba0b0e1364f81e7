package render

import (
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"github.com/warmpath/warmpath/internal/chat"
	"github.com/warmpath/warmpath/internal/tokenask"
)

// heard is what an engine made of the built-in conversations.
type heard struct {
	form    *tokenask.Form
	answers [][]uint32 // one for each conversation; nil where the engine refused it
	at      time.Time
	digest  uint64 // of the answers: engines that say the same have the same
	// unserved is why the form's chats are not what the engine serves; "" when they are.
	unserved string
}

var digestSeed = maphash.MakeSeed()

// someBlind are the features that some form does not heed.
var someBlind = func() (f chat.Feature) {
	for _, forms := range tokenask.Forms {
		for _, form := range forms {
			f |= form.Blind
		}
	}
	return f
}()

// digestOf leaves out what only some forms answer: engines of one build may differ in which form is open.
func digestOf(answers [][]uint32) uint64 {
	var h maphash.Hash
	h.SetSeed(digestSeed)
	for i, ids := range answers {
		if chat.Conversations[i].Request().Features&someBlind != 0 {
			continue
		}
		maphash.WriteComparable(&h, len(ids))
		for _, id := range ids {
			maphash.WriteComparable(&h, id)
		}
	}
	return h.Sum64()
}

// offers is whether the engine answered any chat, and any text.
func (h *heard) offers() (chats, texts bool) {
	for i, ids := range h.answers {
		if ids != nil && chat.Conversations[i].Body != "" {
			chats = true
		} else if ids != nil {
			texts = true
		}
	}
	return chats && h.unserved == "", texts
}

// proof is what is shown about our tokens: that an engine, or each of several, makes the same.
type proof struct {
	chats, texts bool           // of plain ones
	proven       chat.Feature   // what chats may have besides
	wrong        []chat.Feature // chats with all the features of one of these come out differently
}

// covers is whether a request's tokens are shown to be ours.
func (p proof) covers(a chat.Request) bool {
	if a.Chat == nil {
		return p.texts
	}
	return p.chats && a.Features&^p.proven == 0 && !slices.ContainsFunc(p.wrong, func(w chat.Feature) bool { return a.Features&w == w })
}

// and is what is shown of both engines.
func (p proof) and(o proof) proof {
	return proof{chats: p.chats && o.chats, texts: p.texts && o.texts, proven: p.proven & o.proven, wrong: append(slices.Clone(p.wrong), o.wrong...)}
}

// verdict is what comparing one engine's tokens with ours says.
type verdict struct {
	proof
	agreed, differed int    // conversations; one that both refuse is agreed upon
	first            string // the first difference; "" none
	calendar         calendar
}

// chatsMin is how many plain chats must come out the same before they count as shown.
const chatsMin = 8

// judge compares what an engine made of the conversations with what we make of them. before is what was known of its clock.
func judge(o *own, h *heard, before calendar) verdict {
	v := verdict{calendar: calendar{dated: o.dated()}}
	when := h.at
	if v.calendar.dated {
		var seen []time.Duration
		when, seen = dateOf(o, h)
		v.calendar = before.narrowed(seen)
	}
	var chats, texts, textsWrong int
	for i, c := range chat.Conversations {
		a := c.Request()
		features, isChat := a.Features, a.Chat != nil
		theirs := h.answers[i]
		if features&h.form.Blind != 0 && theirs == nil || isChat && h.unserved != "" {
			continue
		}
		ours, err := o.tokens(nil, a, when)
		switch {
		case err != nil && theirs == nil:
			v.agreed++
		case err != nil || theirs == nil:
			// One refuses what the other takes. What we refuse has no tokens here; what the engine refuses is never computed.
		case slices.Equal(ours, theirs):
			v.agreed++
			if !isChat {
				texts++
				continue
			}
			v.proven |= features
			if features == 0 {
				chats++
			}
		default:
			v.differed++
			if v.first == "" {
				v.first = fmt.Sprintf("conversation %q: %s", c.Name, difference(o, ours, theirs))
			}
			if !isChat {
				textsWrong++
			} else {
				v.wrong = append(v.wrong, features)
			}
		}
	}
	v.chats = chats >= chatsMin && !slices.Contains(v.wrong, 0)
	v.texts = texts > 0 && textsWrong == 0
	return v
}

// difference names the first token that is another one.
func difference(o *own, ours, theirs []uint32) string {
	at := 0
	for at < len(ours) && at < len(theirs) && ours[at] == theirs[at] {
		at++
	}
	name := func(ids []uint32) string {
		if at >= len(ids) {
			return "the end"
		}
		return fmt.Sprintf("%d %q", ids[at], o.text(ids[at]))
	}
	return fmt.Sprintf("token %d is %s of ours, %s of the engine's (%d and %d tokens)", at+1, name(ours), name(theirs), len(ours), len(theirs))
}

// dateOf finds the engine's date in what it made of the first conversation that the date shows in, and the zones in which it has that
// date. Where it shows in none, or matches none, that is every zone.
func dateOf(o *own, h *heard) (when time.Time, zones []time.Duration) {
	days := daysAt(h.at)
	for i, c := range chat.Conversations {
		if h.answers[i] == nil || c.Body == "" {
			continue
		}
		var matches []time.Time
		var first []uint32
		shows := false
		for _, that := range append(days, days[0].AddDate(1, 1, 3)) { // one that it is nowhere, in case all days are the same
			ours, err := o.tokens(nil, c.Request(), that)
			if err != nil {
				break
			}
			shows = shows || first != nil && !slices.Equal(first, ours)
			first = ours
			if slices.Equal(ours, h.answers[i]) {
				matches = append(matches, that)
			}
		}
		if !shows {
			continue
		}
		for _, that := range matches {
			zones = append(zones, zonesAt(h.at, that)...)
		}
		if len(zones) > 0 {
			return matches[0], zones
		}
		break
	}
	for _, that := range days {
		zones = append(zones, zonesAt(h.at, that)...)
	}
	return day(h.at), zones
}
