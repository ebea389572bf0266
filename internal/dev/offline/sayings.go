package offline

import (
	_ "embed" // what people say of themselves
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// aspect is what a memory can be of.
type aspect struct {
	kind string // of the memory
	// single aspects have one value at a time: a new one takes the place of the old.
	single, durable bool
	// relation and entity are how the graph writes it; "" where it does not.
	relation, entity string
	// proper things begin with a capital letter or a digit, also in a chat: "call me later" is no name.
	proper bool
}

var aspects = map[string]aspect{
	"age":       {kind: "fact", single: true},
	"allergy":   {kind: "fact", durable: true, relation: "allergic_to", entity: "condition"},
	"birthday":  {kind: "fact", single: true, durable: true},
	"builds":    {kind: "context", relation: "builds", entity: "project"},
	"called":    {kind: "fact", single: true, durable: true, relation: "has", entity: "other", proper: true},
	"diet":      {kind: "fact", durable: true},
	"employer":  {kind: "fact", single: true, relation: "works_at", entity: "organization", proper: true},
	"favourite": {kind: "preference", single: true},
	"has":       {kind: "fact", durable: true, relation: "has", entity: "other"},
	"home":      {kind: "fact", single: true, relation: "lives_in", entity: "place", proper: true},
	"job":       {kind: "fact", single: true, relation: "works_as", entity: "concept"},
	"likes":     {kind: "preference", relation: "likes", entity: "concept"},
	"keeps":     {kind: "fact"},
	"lives":     {kind: "fact", single: true, proper: true},
	"name":      {kind: "fact", single: true, durable: true, proper: true},
	"married":   {kind: "fact", single: true, durable: true, proper: true},
	"number":    {kind: "fact", single: true},
	"origin":    {kind: "fact", single: true, durable: true, proper: true},
	"owns":      {kind: "fact", relation: "owns", entity: "product"},
	"plays":     {kind: "fact", relation: "plays", entity: "concept"},
	"shifts":    {kind: "fact", single: true},
	"speaks":    {kind: "fact", durable: true, relation: "speaks", entity: "concept"},
	"studies":   {kind: "fact", relation: "learns", entity: "concept"},
	"trade":     {kind: "fact", single: true, durable: true},
	"uses":      {kind: "preference", relation: "uses", entity: "tool"},
}

type saying struct {
	of string // its aspect
	// ended sayings say that something is no longer so, or never was.
	ended bool
	said  *regexp.Regexp // a clause that says so in the first person
	known *regexp.Regexp // a memory of it
	told  string
}

//go:embed sayings.txt
var sayingLines string

var sayings = parseSayings(sayingLines)

// kinOf are the words for people and animals of whom the sayings speak.
const kinOf = `(?:dog|cat|horse|parrot|rabbit|hamster|sister|brother|wife|husband|partner|girlfriend|boyfriend|fiancée?|daughter` +
	`|son|mother|father|mum|mom|dad|grandmother|grandfather|aunt|uncle|cousin|niece|nephew` +
	`|boss|teacher|doctor|dentist|therapist|landlord|neighbour|neighbor|flatmate|roommate|friend|baby|boat|band|company)`

var (
	inSaid  = strings.NewReplacer("KIN", kinOf, "{x}", "(?P<x>.+)")
	inKnown = strings.NewReplacer(`\{x\}`, "(?P<x>.+?)", `\{k\}`, "(?P<k>.+?)")
)

func parseSayings(lines string) []saying {
	var all []saying
	for line := range strings.Lines(lines) {
		// The expressions have bars, too: only those with spaces around them divide a line.
		name, rest, found := strings.Cut(strings.TrimSpace(line), "| ")
		if !found || strings.HasPrefix(name, "#") {
			continue
		}
		at := strings.LastIndex(rest, " | ")
		of, ended := strings.CutPrefix(strings.TrimSpace(name), "-")
		said, told := strings.TrimSpace(rest[:at]), rest[at+len(" | "):]
		all = append(all, saying{
			of: of, ended: ended, told: told,
			said:  regexp.MustCompile("(?i)^(?:" + inSaid.Replace(said) + ")$"),
			known: regexp.MustCompile("(?i)^" + inKnown.Replace(regexp.QuoteMeta(strings.TrimSuffix(told, "."))) + `\.?$`),
		})
	}
	return all
}

// germanVerbs are of the first person: a clause that begins with one, "und wohne in Porto", has its subject in the clause before.
const germanVerbs = `bin|wohne|lebe|arbeite|spiele|mag|liebe`

var withoutSubject = regexp.MustCompile(`(?i)^(?:` + germanVerbs + `)\s`)

// claim is what a clause or a memory says.
type claim struct {
	saying
	thing, whose string // what it is about, and of whom or which; "" of the user
}

// claimOf reads a clause that its speaker says of himself.
func claimOf(clause string) (claim, bool) {
	clause = strings.ReplaceAll(clause, "’", "'")
	if withoutSubject.MatchString(clause) {
		clause = "ich " + clause
	}
	for _, s := range sayings {
		if c, ok := s.match(s.said, clause); ok {
			c.thing = thingIn(c.thing, aspects[s.of].proper)
			return c, c.thing != ""
		}
	}
	return claim{}, false
}

// claimIn reads a memory: as this model writes them, or as a user writes of himself.
func claimIn(memory string) (claim, bool) {
	memory = strings.ReplaceAll(strings.TrimSpace(memory), "’", "'")
	for _, s := range sayings {
		if c, ok := s.match(s.known, memory); ok {
			return c, true
		}
	}
	return claimOf(strings.TrimRight(memory, "."))
}

func (s saying) match(pattern *regexp.Regexp, text string) (claim, bool) {
	found := pattern.FindStringSubmatch(text)
	if found == nil {
		return claim{}, false
	}
	group := func(name string) string {
		if at := pattern.SubexpIndex(name); at >= 0 {
			return strings.TrimSpace(found[at])
		}
		return ""
	}
	return claim{saying: s, thing: group("x"), whose: group("k")}, true
}

func (c claim) memory() string {
	return strings.NewReplacer("{x}", c.thing, "{k}", c.whose).Replace(c.told)
}

// subject is what a claim is of: two claims with the same subject speak of the same thing.
func (c claim) subject() string { return c.of + " " + strings.ToLower(c.whose) }

var (
	// thingEnds is where what a clause is about ends and something else begins.
	thingEnds = regexp.MustCompile(`(?i)\s*(?:[;(–]| - |\.\s+(?:it|he|she|they|we|i|my|our|this|that|the|and|but|so)\b` +
		`|,\s*(?:and|but|so|because|which|who|as)\b` +
		`|\s(?:because|but|so that|which|since|when|while|if|with (?:my|our)|and (?:i|my|we|it|they|he|she|you))\b).*$`)
	// thingTail are words at its end that say nothing of it.
	thingTail = regexp.MustCompile(`(?i)(?:[\s,]+(?:now|too|also|again|a lot|very much|so much|any ?more|any longer|these days|by the way` +
		`|please|though|instead|as well|actually)|[ ,.!:…"'*_)])+$`)
	// torn is the end of a thing of which the rest is missing.
	torn = regexp.MustCompile(`(?i)(?:^|\s)(?:an?|the|my|our|of|to|with|and|or|\pL\.)$`)
	// vague is the beginning of what cannot be understood alone, or is no thing.
	vague = regexp.MustCompile(`(?i)^(?:it|its|that|this|these|those|them|him|her|you|your|me|us|one of|what|how` +
		`|to (?:know|ask|see|hear|say|think|thank)|the (?:idea|way|answer|one|same|first|second|last|other)` +
		`|here|there|nothing|everything)\b`)
)

// thingIn returns what a clause is about without what follows, "" where that would not be understood alone.
func thingIn(text string, proper bool) string {
	const mostWords, mostBytes = 10, 90
	text = strings.TrimSpace(text)
	if at := thingEnds.FindStringIndex(text); at != nil {
		if text[at[0]] == '.' && torn.MatchString(text[:at[0]+1]) {
			return "" // "the C. It is old"
		}
		text = text[:at[0]]
	}
	if proper { // "Porto, by the sea"
		text, _, _ = strings.Cut(text, ",")
	}
	text = thingTail.ReplaceAllString(text, "")
	first, _ := utf8.DecodeRuneInString(text)
	if torn.MatchString(text) || proper && unicode.IsLower(first) || !proper && vague.MatchString(text) || len(text) > mostBytes ||
		len(strings.Fields(text)) > mostWords {
		return ""
	}
	return text
}

// thingStems returns the stems of a thing without its articles.
func thingStems(thing string) []string { return stemsWithout(articles, thing) }

var articles = wordSet("a an the my our")

// Entity is one thing that memories are about.
type Entity struct {
	Name   string `json:"name"`
	Type   string `json:"type"`
	Memory string `json:"memory,omitempty"` // that names it, where there is more than one
}

// Relationship is how the user and an entity belong together.
type Relationship struct {
	Source       string `json:"source"`
	Relationship string `json:"relationship"`
	Target       string `json:"target"`
	Memory       string `json:"memory,omitempty"`
}

var (
	article = regexp.MustCompile(`(?i)^(?:an?|the|my|our) `)
	several = regexp.MustCompile(`, |\s(?:and|or|of)\s`) // things are no entity
)

// graph returns the entity and the relationship of a claim. A claim that is no longer so has none.
func (c claim) graph() ([]Entity, []Relationship) {
	kind, name := aspects[c.of], article.ReplaceAllString(c.thing, "")
	if kind.relation == "" || c.ended || len(strings.Fields(name)) > 4 || several.MatchString(name) {
		return []Entity{}, []Relationship{}
	}
	return []Entity{{Name: name, Type: kind.entity}}, []Relationship{{Source: "User", Relationship: kind.relation, Target: name}}
}

// nameEntities answers a request for the entities of memories. Each names its memory.
func nameEntities(r *Request) object {
	entities, relationships := []Entity{}, []Relationship{}
	for _, m := range ReadLines(r.Text, "M") {
		c, _ := claimIn(m.Text) // nothing is named by none
		named, related := c.graph()
		for n := range named {
			named[n].Memory, related[n].Memory = m.Alias, m.Alias
		}
		entities, relationships = append(entities, named...), append(relationships, related...)
	}
	return object{"entities": entities, "relationships": relationships}
}
