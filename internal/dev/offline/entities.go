package offline

import (
	"regexp"
	"strings"
)

// entity is one thing that memories are about.
type entity struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

// relationship is how two of them belong together.
type relationship struct {
	Source       string `json:"source"`
	Relationship string `json:"relationship"`
	Target       string `json:"target"`
}

// userName is what the user is called in relationships.
const userName = "User"

// tools are things with which people work, beyond what the saying tells.
var tools = wordSet("neovim vim emacs linear kubernetes terraform docker postgres postgresql git github notion obsidian figma vscode golang python " +
	"rust excel slack")

// several things are no entity.
var several = regexp.MustCompile(`, |\s(?:and|or|of)\s`)

// graph returns the entities and relationships of a claim. What is no longer so has none.
func (c claim) graph() ([]entity, []relationship) {
	kind, name := aspects[c.of], thingName(c.thing)
	if kind.relation == "" || c.ended || len(strings.Fields(name)) > 4 || several.MatchString(name) {
		return []entity{}, []relationship{}
	}
	found := entity{Name: name, Type: kind.entity}
	if tools[strings.ToLower(name)] {
		found.Type = "tool"
	}
	return []entity{found}, []relationship{{Source: userName, Relationship: c.relation(), Target: name}}
}

// relation is the relationship's name: of the English ways to like something the verb itself.
func (c claim) relation() string {
	relation := aspects[c.of].relation
	verb, liked := strings.CutPrefix(c.told, "The user ")
	switch {
	case c.of == "likes" && liked:
		relation, _, _ = strings.Cut(verb, " ")
	case c.of == "called":
		relation = "has_" + strings.ToLower(strings.Join(strings.Fields(c.whose), "_"))
	}
	return relation
}

// nameEntities answers a request for the entities of memories. Each names its memory.
func nameEntities(r *Request) object {
	entities, relationships := []object{}, []object{}
	for _, m := range aliased(r.Text, "M") {
		c, ok := claimIn(m.text)
		if !ok {
			continue
		}
		named, related := c.graph()
		for _, e := range named {
			entities = append(entities, object{"memory": m.alias, "name": e.Name, "type": e.Type})
		}
		for _, found := range related {
			relationships = append(relationships, object{"memory": m.alias, "source": found.Source, "relationship": found.Relationship, "target": found.Target})
		}
	}
	return object{"entities": entities, "relationships": relationships}
}
