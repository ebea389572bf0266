package api

import "time"

// UsageQuery says which calls are summed up, and by what.
type UsageQuery struct {
	Since *time.Time `query:"since" nullable:"false" description:"Calls from this time on; 30 days before until by default."`
	Until *time.Time `query:"until" nullable:"false" description:"Calls before this time; all by default."`
	By    string     `query:"by" enum:"day,purpose,variant" default:"day" description:"What there is a sum for: days (UTC), purposes or model variants."`
	// Variant is the one that quota is about; "" for none in particular.
	Variant string `query:"model_variant" maxLength:"100" description:"The model variant of the turn that quota is about."`
}

// Spending is what a user's calls have cost.
type Spending struct {
	_     struct{}   `description:"What the user's calls of models have cost, and whether the next turn is allowed."`
	Usage []UsageSum `json:"usage" nullable:"false"`
	Quota Quota      `json:"quota"`
}

// UsageSum is the sum of some calls.
type UsageSum struct {
	_            struct{} `description:"The sum of some calls of models: for replies, folds, memories, topics, vectors."`
	Key          string   `json:"key" description:"The day, the purpose, or the model variant; an empty one for all that is no reply."`
	Calls        int64    `json:"calls"`
	InputTokens  int64    `json:"input_tokens"`
	CachedTokens int64    `json:"cached_tokens" description:"Those of input_tokens that the provider had in its prompt cache."`
	OutputTokens int64    `json:"output_tokens"`
	Cost         int64    `json:"micro_usd" description:"Millionths of a dollar of the calls whose model variant has a price."`
}

// Quota is the app's word on the user's next turn.
type Quota struct {
	_        struct{}   `description:"The app's word on the user's next turn."`
	Verdict  string     `json:"verdict" enum:"allow,deny,downgrade" description:"downgrade: another model variant would answer."`
	Reason   string     `json:"reason" description:"The app's word for why; empty for none."`
	ResetsAt *time.Time `json:"resets_at" description:"When that changes; null for unknown."`
}
