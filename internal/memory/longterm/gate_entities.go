package longterm

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/arcoscribe/throughline/internal/memory/lang"
)

const (
	// mostEntities of a fact are kept, with names of at most mostName characters.
	mostEntities     = 12
	mostName         = 120
	mostRelationship = 40
)

func namesOf(entities []Entity) []string {
	var names []string
	for _, e := range entities {
		names = append(names, e.Name)
	}
	return names
}

// entitiesOf returns the entities that can be kept: with a name that was said, each once.
func entitiesOf(proposed []Entity, p *proof) []Entity {
	var kept []Entity
	seen := map[string]bool{}
	for _, e := range proposed {
		name := cleanName(e.Name)
		key := lang.Bare(name)
		if key == "" || seen[key] || len(kept) == mostEntities || holdsSecret(name) {
			continue
		}
		if !slices.Contains(EntityTypes, e.Type) {
			e.Type = "other"
		}
		if isNamed(e.Type) && !userWords[key] && !p.all.holdsName(name, p.lang) {
			continue
		}
		seen[key] = true
		kept = append(kept, Entity{Name: name, Type: e.Type})
	}
	return kept
}

func cleanName(name string) string {
	name = strings.Join(strings.Fields(name), " ")
	if utf8.RuneCountInString(name) > mostName || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) || markedUp().MatchString(name) {
		return ""
	}
	return name
}

// relationshipsOf returns the relationships between entities that are kept, and the user.
func relationshipsOf(proposed []Relationship, entities []Entity) []Relationship {
	ends := map[string]string{"user": userName, "the user": userName}
	for _, e := range entities {
		ends[lang.Bare(e.Name)] = e.Name
		if userWords[lang.Bare(e.Name)] {
			ends[lang.Bare(e.Name)] = userName
		}
	}
	for word := range userWords {
		ends[word] = userName
	}
	var kept []Relationship
	for _, r := range proposed {
		r = Relationship{Source: ends[lang.Bare(r.Source)], Relationship: snakeCase(r.Relationship), Target: ends[lang.Bare(r.Target)]}
		whole := r.Source != "" && r.Relationship != "" && r.Target != "" && r.Source != r.Target
		if whole && len(kept) < mostEntities && !slices.Contains(kept, r) {
			kept = append(kept, r)
		}
	}
	return kept
}

// userName is the name of the user among the entities.
const userName = "User"

var noWord = express(`[^\pL\pN]+`)

// snakeCase writes the name of a relationship as "works_at". It returns "" for one that is too long.
func snakeCase(name string) string {
	name = strings.Trim(noWord().ReplaceAllString(strings.ToLower(name), "_"), "_")
	if utf8.RuneCountInString(name) > mostRelationship {
		return ""
	}
	return name
}
