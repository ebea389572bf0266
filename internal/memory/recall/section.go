package recall

// The most turns of a section, and the most tokens of each.
const (
	SectionTurns     = 6
	SectionTurnLimit = 200
)

// Section writes turns for a prompt: at most SectionTurns, each of at most SectionTurnLimit tokens around what the
// question is about, the best ones that fit into budget tokens, in the order in which they were said. It returns the
// text, the turns that are in it, in that order, and the text's tokens.
func Section(turns []Turn, budget int) (text string, shown []Turn, tokens int) {
	return "", nil, 0
}
