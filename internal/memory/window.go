package memory

// DefaultWindow is the context window of a model without a configured one, in tokens.
const DefaultWindow = 128_000

// The most that each part of a context window takes, in tokens, however large the window is.
const (
	maxResponseTokens = 16_000
	maxHistoryTokens  = 50_000
	MaxFileTokens     = 100_000
)

// Budget is how a model's context window is divided, in tokens.
type Budget struct {
	// Response is left free for the reply: a quarter of the window, at most 16 000. It is not sent to the model as a
	// limit: a reply may be longer where there is room.
	Response int
	// History is for the conversation: a third of the rest, at most 50 000.
	History int
	// Rest is for everything else: instructions, question, sources and files.
	Rest int
}

// Files returns the most that files may take of the rest.
func (b Budget) Files() int { return min(b.Rest, MaxFileTokens) }

// Divide divides a context window. The parts never exceed it.
func Divide(window int) Budget {
	response := min(window/4, maxResponseTokens)
	history := min((window-response)/3, maxHistoryTokens)
	return Budget{Response: response, History: history, Rest: window - response - history}
}

// Within narrows the limits to a model's context window: where the history's part is less than prompt and bridge
// together, the bridge keeps up to two thirds of it. With the defaults that changes nothing from a window of 36 000
// tokens on; in a smaller one turns may be dropped, which the receipt reports.
func (l Limits) Within(window int) Limits {
	b := Divide(window)
	l.MaxHistoryTokens = min(l.MaxHistoryTokens, b.History)
	l.BridgeTokenBudget = min(l.BridgeTokenBudget, b.History*2/3)
	l.PromptTokenBudget = min(l.PromptTokenBudget, b.History-l.BridgeTokenBudget)
	l.HistoryTokens, l.InputTokens, l.FileTokens = b.History, window-b.Response, b.Rest
	return l
}

// Thread widens the limits for a chat that a tool starts: what tools read of code and logs is worth its words, so its turns are
// shown as long as the history's part of the window holds them, and folded from there on. Without a bridge only those of a
// simple chat are.
func (l Limits) Thread() Limits {
	if l.HistoryTokens == 0 {
		return l
	}
	l.MaxHistoryTokens = l.HistoryTokens
	if l.BridgeTokenBudget > 0 {
		l.BridgeTokenBudget = max(l.BridgeTokenBudget, l.HistoryTokens-l.PromptTokenBudget-l.KeptTokenBudget())
		l.ChunkThreshold = max(l.ChunkThreshold, l.BridgeTokenBudget)
	}
	return l
}

// Less takes so many tokens from the conversation: of the bridge first.
func (l Limits) Less(tokens int) Limits {
	l.MaxHistoryTokens = max(1, l.MaxHistoryTokens-tokens)
	fromBridge := min(tokens, l.BridgeTokenBudget)
	l.BridgeTokenBudget -= fromBridge
	l.PromptTokenBudget = max(1, l.PromptTokenBudget-tokens+fromBridge)
	return l
}
