package history

import "time"

// BriefRevisionsQuery asks for versions of a chat's brief: the latest, or those before one.
type BriefRevisionsQuery struct {
	Limit         int    `query:"limit" minimum:"1" maximum:"200" default:"50" description:"How many versions."`
	BeforeVersion *int64 `query:"before_version" nullable:"false" minimum:"0" description:"The latest versions before this one."`
}

// BriefRevisionPage is some of the versions of a chat's brief.
type BriefRevisionPage struct {
	Revisions []BriefRevision `json:"revisions" nullable:"false" description:"The latest version first."`
	HasMore   bool            `json:"has_more" description:"Whether there are older ones."`
}

// BriefRevision is a version of a chat's brief, and how it was made.
type BriefRevision struct {
	_            struct{}  `description:"A version of a chat's brief, and how it was made."`
	Version      int64     `json:"version"`
	Kind         string    `json:"kind" enum:"fold,rebuild,rollback,clear" doc:"kind"`
	SeqFrom      int64     `json:"seq_from" description:"The first of the messages that went into the brief with this version, or that were cleared."`
	SeqTo        int64     `json:"seq_to" description:"The last of them; seq_from - 1 for none."`
	Turns        int       `json:"turns" description:"How many turns those are."`
	Text         *string   `json:"global_summary" doc:"global_summary"`
	InputTokens  int       `json:"input_tokens" description:"What the model read for it, as it counted."`
	OutputTokens int       `json:"output_tokens"`
	Model        string    `json:"model" description:"Empty where none was asked."`
	PromptRef    string    `json:"prompt_ref" doc:"prompt_ref"`
	CreatedAt    time.Time `json:"created_at"`
}
