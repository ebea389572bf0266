package longterm

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/lang"

	"github.com/arcoscribe/throughline/internal/memory/text"
)

const (
	// inboxBelow is the confidence under which a fact is shown to the user only.
	inboxBelow = .5
	// unsupported is the most confidence in a fact that has no word in common with what the user said.
	unsupported = .49
)

// Gate judges the facts of an answer to Write(in).
func Gate(in Input, facts []Finding) Verdict {
	g := newGate(in)
	v := Verdict{Dropped: map[Reason]int{}}
	for n := range facts {
		candidate, reason := g.judge(&facts[n])
		if reason != "" {
			v.Dropped[reason]++
			continue
		}
		v.Candidates = append(v.Candidates, candidate)
	}
	v.Retry = retryFor(v.Dropped)
	return v
}

// retryFor returns the sentence of a second call for what a model can mend.
func retryFor(dropped map[Reason]int) string {
	var sentences []string
	for _, r := range []struct {
		reason   Reason
		sentence string
	}{
		{BadForm, `Some facts of the previous answer were not of the form: every field as described, "evidence" with aliases of the input only, dates as ` +
			`YYYY, YYYY-MM or YYYY-MM-DD.`},
		{RelativeDate, `Some facts of the previous answer had relative dates such as "yesterday" or "next week": write the date, by the day of the message, ` +
			`or leave it out.`},
		{OtherLanguage, `Some facts of the previous answer were not in the language in which the user wrote them: do not translate.`},
	} {
		if dropped[r.reason] > 0 {
			sentences = append(sentences, r.sentence)
		}
	}
	if len(sentences) == 0 {
		return ""
	}
	return strings.Join(append(sentences, "Answer again with the whole list of facts."), " ")
}

// Refused returns why a text that a program wants remembered may not be, by any speaker; "" if it may.
func Refused(content string) Reason {
	switch {
	case holdsSecret(content):
		return Secret
	case isOrder(content) || isOrderSaid(content):
		return Order
	case isNoFact(content):
		return NoFact
	case isPassing(content):
		return Moment
	}
	return ""
}

// gate is what the facts of one answer are held against.
type gate struct {
	in       Input
	new      []aliased
	byAlias  map[string]aliased
	ordered  []memory.Message // recent and new ones that have text, oldest first
	userText string           // all that the user wrote of the new messages
	heard    map[int64]*heard
}

func newGate(in Input) *gate {
	g := &gate{
		in: in, new: numbered(in.New), byAlias: map[string]aliased{}, ordered: saidIn(slices.Concat(in.Recent, in.New)), heard: map[int64]*heard{},
	}
	var user []string
	for _, m := range g.new {
		g.byAlias[m.alias] = m
		if m.Role == memory.RoleUser {
			user = append(user, m.Content)
		}
	}
	g.userText = strings.Join(user, "\n")
	return g
}

type proof struct {
	fact   string           // on one line
	quote  string           // the message's own words
	said   []aliased        // the user's messages that it names, in their order
	quoted aliased          // the one that holds the quote
	before []memory.Message // up to RecentMessages before the last of them
	lang   string
	own    said // what those of the user say
	all    said // and those before them
}

func (g *gate) judge(f *Finding) (Candidate, Reason) {
	c, ok := g.form(f)
	if !ok {
		return c, BadForm
	}
	if f.Horizon == horizonMoment || isPassing(c.Fact) {
		return c, Moment
	}
	p := g.proofOf(f, c.Fact)
	switch {
	case len(p.said) == 0:
		return c, AssistantOnly
	case holdsSecret(c.Fact) || holdsSecret(f.Quote) || slices.ContainsFunc(f.Entities, func(e Entity) bool { return holdsSecret(e.Name) }):
		return c, Secret
	case p.quoted.alias == "":
		return c, NoQuote
	case isPasted(p.quoted.Content, p.quote) || repeats(g.in, p.quoted, p.quote):
		return c, Echo
	case g.isInvented(p, f):
		return c, Invented
	case isOrder(c.Fact):
		return c, Order
	case isNoFact(c.Fact):
		return c, NoFact
	case relativeDate(c.Fact):
		return c, RelativeDate
	case g.isForeign(p):
		return c, OtherLanguage
	case isExcluded(g.in.Excluded, append(namesOf(f.Entities), c.Fact, f.Quote)...):
		return c, ExcludedSubject
	}
	if c.Doubt = p.doubt(); c.Doubt != "" && !p.isOfThemselves(c.Doubt) {
		return c, c.Doubt
	}
	return g.complete(c, f, p), ""
}

// doubt returns why the quote may not say what the fact says. What the user only agrees to has the assistant's words.
func (p *proof) doubt() Reason {
	switch sentence := sentenceWith(p.quoted.Content, p.quote); {
	case isOrderSaid(sentence):
		return Order
	case saysNothing(p.quoted.Content):
		return ""
	}
	reason := doubt(p.fact, p.lang, p.quoted.Content, p.quote)
	if reason == Subject && len(namesIn(p.fact, p.lang)) > 0 && !mentionsUser(p.fact) {
		return "" // the fact is about a person whom it names
	}
	return reason
}

// isOfThemselves reports whether the user speaks of themselves in the sentence that is quoted. "My sister" does not; what has no subject
// ("got a bad knee") does where it denies, was so or is imagined.
func (p *proof) isOfThemselves(doubt Reason) bool {
	plain := lang.Fold(sentenceWith(p.quoted.Content, p.quote))
	words := sensesFor(plain, p.lang)
	switch doubt {
	case Subject:
		return words.self.matches(plain) || !words.others.matches(plain) && !words.people.matches(plain) // "the guy upstairs" may be anybody
	case Polarity, Past, Mood, Unclear:
		return true // other persons were looked for before
	}
	return words.self.matches(plain) || anyMatches(firstPerson, plain)
}

func (g *gate) form(f *Finding) (Candidate, bool) {
	c := Candidate{Fact: text.OneLine(f.Fact), Type: Type(f.Type), Replaces: clipQuote(f.Replaces)}
	length := utf8.RuneCountInString(c.Fact)
	switch {
	case f.unreadable, length == 0, length > MaxContent, !utf8.ValidString(c.Fact), memory.HoldsNUL(c.Fact + f.Quote + f.Replaces):
		return c, false
	case strings.ContainsFunc(c.Fact, unicode.IsControl), !slices.Contains(types, f.Type):
		return c, false
	case f.Confidence == nil, math.IsNaN(*f.Confidence), *f.Confidence < 0, *f.Confidence > 1:
		return c, false
	case f.Horizon != "" && !slices.Contains(horizons, f.Horizon), len(f.Evidence) == 0:
		return c, false
	}
	for _, alias := range f.Evidence {
		if _, known := g.byAlias[alias]; !known {
			return c, false
		}
	}
	from, fromPrecision, fromOK := parseDate(f.ValidFrom)
	to, toPrecision, toOK := parseDate(f.ValidTo)
	if !fromOK || !toOK || !from.IsZero() && !to.IsZero() && endOf(to, toPrecision).Before(from) {
		return c, false
	}
	c.Confidence = *f.Confidence
	c.ValidFrom, c.ValidTo, c.Precision = from, to, coarser(fromPrecision, toPrecision)
	return c, true
}

func (g *gate) proofOf(f *Finding, fact string) *proof {
	p := &proof{fact: fact, quote: f.Quote, lang: lang.Of(fact)}
	var own []memory.Message
	last := -1
	for _, m := range g.new {
		if m.Role != memory.RoleUser || !slices.Contains(f.Evidence, m.alias) {
			continue
		}
		p.said, own = append(p.said, m), append(own, m.Message)
		last = slices.IndexFunc(g.ordered, func(o memory.Message) bool { return o.ID == m.ID && o.Seq == m.Seq })
		if words, found := quoteIn(m.Content, f.Quote); found && p.quoted.alias == "" {
			p.quoted, p.quote = m, words
		}
	}
	if last >= 0 {
		p.before = g.ordered[max(0, last-RecentMessages):last]
	}
	if p.lang == "" && len(p.said) > 0 {
		p.lang = lang.Of(own[0].Content)
	}
	p.own = g.said(own...)
	p.all = append(g.said(p.before...), p.own...)
	return p
}

// said returns what messages hold. Each is read once.
func (g *gate) said(messages ...memory.Message) said {
	var all said
	for _, m := range messages {
		if g.heard[m.Seq] == nil {
			g.heard[m.Seq] = hear(g.in, m)
		}
		all = append(all, g.heard[m.Seq])
	}
	return all
}

// isInvented reports whether a fact has a name or number that was not said, or rests on a message that says nothing, such
// as a greeting.
func (g *gate) isInvented(p *proof, f *Finding) bool {
	if p.all.invented(p.fact, p.lang) {
		return true
	}
	plain := lang.Bare(p.fact)
	for _, e := range f.Entities {
		named := lang.Bare(e.Name)
		if isNamed(e.Type) && named != "" && !userWords[named] && strings.Contains(plain, named) && !p.all.holdsName(e.Name, p.lang) && !isGenericWord(named) {
			return true
		}
	}
	return saysNothing(p.quoted.Content) && !g.confirms(p)
}

// isNamed reports whether entities of a type have names of their own.
func isNamed(entityType string) bool {
	return entityType == "person" || entityType == "organization" || entityType == "place" || entityType == "product"
}

// smallTalk are words of messages that say nothing of anybody, and with which people agree.
var smallTalk = wordSet("small talk")

// saysNothing reports whether a message is small talk and nothing else.
func saysNothing(content string) bool {
	return !slices.ContainsFunc(lang.WordsOf(content), func(word string) bool { return !smallTalk[word] && !lang.Knows("en", word) })
}

// confirms reports whether a fact was said by the assistant just before, so that "yes" says it.
func (g *gate) confirms(p *proof) bool {
	for _, m := range slices.Backward(p.before) {
		if m.Role == memory.RoleAssistant && m.Seq < p.quoted.Seq {
			terms := contentOf(p.fact)
			return strings.ContainsAny(m.Content, "?？؟") && countShared(terms, lang.Terms(m.Content))*2 >= len(terms)
		}
	}
	return false
}

// isOrderSaid reports whether the sentence that is quoted is an order to the assistant; the fact may say it otherwise.
func isOrderSaid(sentence string) bool {
	if markedUp().MatchString(sentence) {
		return true
	}
	plain := withoutOpeners(lang.Fold(sentence))
	ofThemselves := anyMatches(firstPerson, plain) && !anyMatches(secondPerson, plain)
	return anyMatches(defiance, plain) && !ofThemselves
}

// By these words people speak of their own actions, or tell the assistant what to do.
var (
	firstPerson  = spoken("first person")
	secondPerson = spoken("second person")
)

// isForeign reports whether a fact is in another language than the user's words: those of its evidence or, where they are
// too few to tell, all that they wrote. The language of the user's settings is always one of theirs.
func (g *gate) isForeign(p *proof) bool {
	if g.in.Language != "" && strings.EqualFold(g.in.Language, lang.Of(p.fact)) {
		return false
	}
	if !lang.Differ(p.fact, sentenceWith(p.quoted.Content, p.quote)) && scriptIs(p.fact, p.quote) && lang.Of(p.quote) != "" {
		return false
	}
	var own []string
	for _, m := range p.said {
		own = append(own, m.Content)
	}
	said := strings.Join(own, "\n")
	if lang.Differ(p.fact, said) {
		return true
	}
	const fewWords = 12
	return lang.Of(said) == "" && len(lang.WordsOf(said)) < fewWords && lang.Differ(p.fact, g.userText)
}

// sentenceWith returns the sentence of a message in which a quote stands, else the quote.
func sentenceWith(message, quote string) string {
	plain := lang.Bare(quote)
	for _, l := range linesOf(message) {
		for _, sentence := range text.Sentences(l.text) {
			if strings.Contains(lang.Bare(sentence), plain) {
				return sentence
			}
		}
	}
	return quote
}

func scriptIs(a, b string) bool {
	scriptA, _ := lang.ScriptOf(a)
	scriptB, _ := lang.ScriptOf(b)
	return scriptA == scriptB
}

// complete adds what the gate makes of a fact that passed.
func (g *gate) complete(c Candidate, f *Finding, p *proof) Candidate {
	c.Lang = cmp.Or(p.lang, lang.Of(g.userText))
	c.Durable = f.Durable || IsLasting(c.Fact)
	c.ValidFrom, c.ValidTo = p.known(c.ValidFrom, c.Precision), p.known(c.ValidTo, c.Precision)
	if c.ValidFrom.IsZero() && c.ValidTo.IsZero() {
		c.Precision = ""
	}
	if terms := contentOf(c.Fact); !anyMatches(style, lang.Fold(c.Fact)) && countShared(terms, lang.Terms(p.text())) == 0 {
		c.Confidence = min(c.Confidence, unsupported)
	}
	c.Inbox = c.Confidence < inboxBelow || c.Doubt != ""
	c.Evidence = g.evidence(p)
	c.Entities = entitiesOf(f.Entities, p)
	c.Relationships = relationshipsOf(f.Relationships, c.Entities)
	return c
}

// text returns all that the fact may come from.
func (p *proof) text() string {
	var b strings.Builder
	for _, m := range p.before {
		b.WriteString(m.Content + "\n")
	}
	for _, m := range p.said {
		b.WriteString(m.Content + "\n")
	}
	return b.String()
}

// known returns a date that follows from what was said, else none: a date that was not said is not worth a fact.
func (p *proof) known(at time.Time, precision memory.Precision) time.Time {
	if at.IsZero() || !p.all.meets(at, precision) {
		return time.Time{}
	}
	return at
}
