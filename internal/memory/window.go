package memory

// DefaultWindow is the context window of a model that nothing is known of, in tokens.
const DefaultWindow = 128_000

// The most that each part of a window takes, in tokens, however large the window is.
const (
	maxResponseTokens = 16_000
	maxHistoryTokens  = 50_000
	MaxFileTokens     = 100_000
)

// Budget is how a model's context window is divided, in tokens.
type Budget struct {
	// Response is what is kept free for the reply: a quarter of the window, at most 16 000. A reply may be longer
	// where there is room; the model is not told to stop, because what it may write at once is its own affair.
	Response int
	// History is what the conversation may take: a third of the rest, at most 50 000.
	History int
	// Rest is what is left for everything else: instructions, question, sources and files.
	Rest int
}

// Files is what files may take of the rest, at most 100 000.
func (b Budget) Files() int { return min(b.Rest, MaxFileTokens) }

// Divide divides a window. The parts never exceed it.
func Divide(window int) Budget {
	response := min(window/4, maxResponseTokens)
	history := min((window-response)/3, maxHistoryTokens)
	return Budget{Response: response, History: history, Rest: window - response - history}
}

// Within narrows the limits to a model's window: where the history's part is less than prompt and bridge
// together, the bridge keeps up to two thirds of it. With the defaults that changes nothing from a window of
// 36 000 tokens on; in a smaller one turns may be dropped, which the receipt says.
func (l Limits) Within(window int) Limits {
	b := Divide(window)
	l.MaxHistoryTokens = min(l.MaxHistoryTokens, b.History)
	l.BridgeTokenBudget = min(l.BridgeTokenBudget, b.History*2/3)
	l.PromptTokenBudget = min(l.PromptTokenBudget, b.History-l.BridgeTokenBudget)
	l.FileTokens = b.Rest
	return l
}
