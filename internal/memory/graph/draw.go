package graph

import (
	"fmt"
	"strings"
	"unicode"
)

// Mermaid draws a graph as a flowchart of Mermaid: a line for what is true, dots for what was.
func Mermaid(a Answer) string {
	var b strings.Builder
	b.WriteString("flowchart LR\n")
	nodes := nodesOf(a)
	for n, name := range nodes.names {
		fmt.Fprintf(&b, "  n%d[\"%s\"]\n", n+1, mermaidText(name))
	}
	for _, edge := range a.Relationships {
		arrow := "-->"
		if !edge.Valid {
			arrow = "-.->"
		}
		fmt.Fprintf(&b, "  n%d %s|\"%s\"| n%d\n", nodes.number(edge.Source), arrow, mermaidText(edge.Relationship), nodes.number(edge.Target))
	}
	return b.String()
}

// mermaidText writes everything as a character code that is not plainly a letter, a digit or a space, so that nothing in
// a name ends its quotes, or is read as a directive, markup or a link.
func mermaidText(name string) string {
	var b strings.Builder
	for _, r := range label(name) {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) || strings.ContainsRune(" _-.,'", r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "#%d;", r)
		}
	}
	return b.String()
}

// DOT draws a graph in the language of Graphviz: a line for what is true, dashes for what was.
func DOT(a Answer) string {
	var b strings.Builder
	b.WriteString("digraph memories {\n  rankdir=LR;\n  node [shape=box];\n")
	nodes := nodesOf(a)
	for n, name := range nodes.names {
		fmt.Fprintf(&b, "  n%d [label=\"%s\"];\n", n+1, dotText(name))
	}
	for _, edge := range a.Relationships {
		style := ""
		if !edge.Valid {
			style = ", style=dashed"
		}
		fmt.Fprintf(&b, "  n%d -> n%d [label=\"%s\"%s];\n", nodes.number(edge.Source), nodes.number(edge.Target), dotText(edge.Relationship), style)
	}
	b.WriteString("}\n")
	return b.String()
}

// dotText escapes what ends a quoted string, and the ampersand, which begins an HTML entity.
func dotText(name string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "&", "&amp;").Replace(label(name))
}

// label is a name on one line, without characters that do not show.
func label(name string) string {
	visible := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, name)
	return strings.Join(strings.Fields(visible), " ")
}

// numbered numbers the entities of an answer.
type numbered struct {
	names   []string
	numbers map[string]int
}

func nodesOf(a Answer) numbered {
	nodes := numbered{numbers: map[string]int{}}
	for _, node := range a.Entities {
		nodes.number(node.Name)
	}
	for _, edge := range a.Relationships { // whose entities are all there, unless the answer was cut
		nodes.number(edge.Source)
		nodes.number(edge.Target)
	}
	return nodes
}

func (n *numbered) number(name string) int {
	if n.numbers[name] == 0 {
		n.names = append(n.names, name)
		n.numbers[name] = len(n.names)
	}
	return n.numbers[name]
}
