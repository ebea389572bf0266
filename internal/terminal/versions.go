package terminal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/client"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

// lastOf returns the end of the chat, as it was shown, with the user's last message and the reply to it, if there is one.
func (t *talk) lastOf(ctx context.Context) (last uuid.UUID, asked, reply api.Message, err error) {
	page, err := t.Client.Messages(ctx, t.chatID, messagesShown)
	if len(page.Messages) > 0 {
		last = page.Messages[len(page.Messages)-1].ID
	}
	if t.last != uuid.Nil && t.last != last {
		err = cmp.Or(err, errors.New("the conversation has changed; /history shows it"))
	}
	for _, message := range slices.Backward(page.Messages) {
		switch message.Role {
		case "assistant":
			reply = message
		case "user":
			return last, message, reply, err
		}
	}
	return last, asked, reply, cmp.Or(err, fmt.Errorf("none of the last %d messages is yours", messagesShown))
}

// edit replaces the user's last message by a text, or by what they make of it.
func (t *talk) edit(ctx context.Context, content string) error {
	last, asked, _, err := t.lastOf(ctx)
	if err != nil {
		return err
	}
	if before := Clean(asked.Content); content == "" && strings.Contains(before, "\n") {
		return errors.New("your last message has several lines; /edit TEXT replaces it")
	} else if content == "" {
		content, err = t.editor.ask(ctx, promptText, before)
	}
	if content = strings.TrimSpace(content); content == "" || err != nil {
		return t.told(err, "Nothing was changed.\n")
	}
	return t.deliver(ctx, client.Message{Content: content, ModelVariant: t.Model, Replaces: asked.ID, Last: last})
}

// again has the user's last message answered once more, by a variant.
func (t *talk) again(ctx context.Context, variant string) error {
	last, asked, _, err := t.lastOf(ctx)
	if err != nil {
		return err
	}
	return t.deliver(ctx, client.Message{ModelVariant: cmp.Or(variant, t.Model), Replaces: asked.ID, Last: last})
}

// showVersions lists the versions of the last message and reply, or goes back to one that it has listed.
func (t *talk) showVersions(ctx context.Context, which string) error {
	last, asked, reply, err := t.lastOf(ctx)
	if err != nil {
		return err
	}
	if which != "" {
		return t.selectVersion(ctx, which, last)
	}
	t.versions = nil
	for _, message := range []api.Message{asked, reply} {
		if message.Versions < 2 {
			continue
		}
		found, err := t.Client.Versions(ctx, message.ID)
		if err != nil {
			return err
		}
		for _, version := range found.Versions {
			t.versions = append(t.versions, version.ID)
			mark := map[bool]string{true: "*"}[version.SupersededBy == nil]
			t.print("%1s%2d  %s\n", mark, len(t.versions), text.Shorten(OneLine(MessageText(version)), maxTitleColumns))
		}
	}
	if len(t.versions) == 0 {
		return t.told(nil, "Nothing was said in their place. /edit and /again do that.\n")
	}
	return t.told(nil, "* is shown. /versions NUMBER goes back to another one.\n")
}

func (t *talk) selectVersion(ctx context.Context, which string, last uuid.UUID) error {
	number, err := strconv.Atoi(which)
	if err != nil || number < 1 || number > len(t.versions) {
		return errors.New("/versions NUMBER wants one of the last /versions")
	}
	if _, err := t.Client.Select(ctx, t.versions[number-1], last); err != nil {
		return err
	}
	return t.show(ctx, recapShown)
}
