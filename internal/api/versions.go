package api

import "github.com/google/uuid"

// Versions are what was said at one place of a chat.
type Versions struct {
	_        struct{}   `description:"The versions of a message."`
	Versions []Message  `json:"versions" nullable:"false" description:"The oldest first."`
	Selected *uuid.UUID `json:"selected" description:"The one on the path; null where another message, or none, is there."`
}

// Selection asks for another version of a message.
type Selection struct {
	_             struct{}      `description:"Which conversation the client shows."`
	LastMessageID Field[string] `json:"last_message_id,omitzero" nullable:"true" format:"uuid" doc:"last_message_id"`
}

// ReadLast reads the last message of a path, as the client knows it: uuid.Nil for an empty path, nil where it does not say.
func ReadLast(field Field[string]) (*uuid.UUID, error) {
	switch {
	case !field.Set:
		return nil, nil //nolint:nilnil // most clients do not say
	case field.Value == nil:
		return &uuid.UUID{}, nil
	}
	id, err := ParseID(*field.Value)
	if err != nil || id == uuid.Nil {
		return nil, problems{"last_message_id": "must be a uuid"}.err()
	}
	return &id, nil
}

// Selected is the path after a version was selected.
type Selected struct {
	_             struct{}  `description:"The conversation as it is now."`
	ChatID        uuid.UUID `json:"chat_id"`
	Selected      uuid.UUID `json:"selected" description:"The version that is on the path."`
	FromSeq       *int64    `json:"from_seq" description:"The first place that changed: read again from there. null where the message was on the path before."`
	LastMessageID uuid.UUID `json:"last_message_id" description:"The path's last message."`
}
