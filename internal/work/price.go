package work

// Price is what tokens of a model cost, each in millionths of a millionth of a dollar: 1 000 000 is a dollar for a million tokens. The
// zero value is free.
type Price struct{ Input, Cached, Output int64 }

// MaxPrice is in dollars for a million tokens. It keeps the cost of any call within an int64.
const MaxPrice = 10_000

// Of returns what a call has cost, in millionths of a dollar, half of one rounded up.
func (p Price) Of(spent Spent) int64 {
	const unit = 1_000_000
	cached := min(spent.CachedTokens, spent.InputTokens)
	cost := int64(spent.InputTokens-cached)*p.Input + int64(cached)*p.Cached + int64(spent.OutputTokens)*p.Output
	return (cost + unit/2) / unit
}
