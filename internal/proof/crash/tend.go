package main

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/google/uuid"
)

// topicRefusals are what a topic may answer that has changed since it was listed: its messages were deleted, or it was
// merged.
var topicRefusals = map[fault.Code]bool{"topic_not_found": true, fault.ValidationFailed: true, fault.MessageNotFound: true}

// tendTopics renames, rates, tags or merges topics of a chat, or reads one, as their user may at any time.
func (t *talker) tendTopics(ctx context.Context, chat *conversation) {
	if chat.id == uuid.Nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	path := "/v1/chats/" + chat.id.String() + "/topics"
	var listed struct {
		Topics []struct {
			ID    uuid.UUID
			State string
		}
	}
	if !t.ask(ctx, http.MethodGet, path, nil, &listed) || len(listed.Topics) == 0 {
		return
	}
	one := listed.Topics[t.chance.IntN(len(listed.Topics))]
	other := listed.Topics[t.chance.IntN(len(listed.Topics))]
	at := path + "/" + one.ID.String()
	switch dice := t.chance.IntN(100); {
	case dice < 15:
		t.ask(ctx, http.MethodPatch, at, map[string]any{"title": "What matters most"}, nil)
	case dice < 30:
		t.ask(ctx, http.MethodPatch, at, map[string]any{"importance": t.chance.Float64(), "tags": []string{"work"}}, nil)
	case dice < 45:
		t.rate(ctx, chat)
	case dice < 60 && one.ID != other.ID && one.State != "merged" && other.State != "merged":
		t.ask(ctx, http.MethodPost, at+"/merge", map[string]any{"into": other.ID}, nil)
	case dice < 80:
		t.ask(ctx, http.MethodGet, at+"/history?include_compressed=true", nil, nil)
	default:
		t.ask(ctx, http.MethodGet, path+"/current/context", nil, nil)
	}
}

// rate says what a user thinks of a reply.
func (t *talker) rate(ctx context.Context, chat *conversation) {
	id, state := t.record.deletable(chat.said[t.chance.IntN(len(chat.said))], true)
	if state != nil {
		t.ask(ctx, http.MethodPost, "/v1/messages/"+id.String()+"/feedback", map[string]any{"rating": t.chance.IntN(3) - 1}, nil)
	}
}

// ask sends a request to any server and reports whether it was answered. A refusal that nothing explains is recorded.
func (t *talker) ask(ctx context.Context, method, path string, body, answer any) bool {
	var raw []byte
	if body != nil {
		raw, _ = json.Marshal(body) // texts, numbers and ids
	}
	code, err := t.callWith(ctx, t.anyServer(), method, path, raw, answer)
	switch {
	case err != nil || patientCodes[code] || topicRefusals[code]:
		return false
	case code != "":
		t.record.complain("%s %s answers %s", method, path, code)
		return false
	}
	return true
}
