package bundle

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/arcoscribe/throughline/internal/memory"
)

// Limits of an account and of topics, in characters unless noted.
const (
	maxZone       = 64
	maxExcluded   = 50
	maxSubject    = 100
	maxTopicTitle = 80
	maxTopicTags  = 8000 // bytes, as Postgres writes them
)

// about is what a person reads who opens the file.
const about = "Everything that is stored about one user, one JSON object per line, each with its type. account: who it is, and their settings. " +
	"chat, then its files, messages, topics and the revisions of its summary, up to end. memory: what is remembered across chats, with where it was said " +
	"and its history. " +
	"entity and relationship: what the memories are about. account_end: the file is whole. " +
	"POST it to /v1/import to take it to another account. docs/bundle.md describes it."

// BeginAccount writes what stands before the chats of an account. After them comes what is outside of chats.
func (b *Bundle) BeginAccount(exportedAt time.Time, account Account) error {
	header := Header{Format: Name, Version: Version, ExportedAt: exportedAt.UTC(), Holds: HoldsAccount, About: about}
	if err := b.Write(Record{Header: &header}); err != nil {
		return err
	}
	return b.Write(Record{Account: &account})
}

// EndAccount says that the file is whole.
func (b *Bundle) EndAccount() error { return b.Write(Record{AccountEnd: new(b.outside)}) }

func (r *rules) accountBegins(account *Account) error {
	if r.account != accountExpected {
		return wrong("unknown_format", "there is an account where none is expected")
	}
	r.account, r.memories = accountBegun, idSet{}
	settings := &account.Settings
	if settings.Excluded == nil {
		settings.Excluded = []string{}
	}
	if len(settings.Excluded) > maxExcluded {
		return wrong("out_of_range", fmt.Sprintf("there are more than %d excluded subjects", maxExcluded))
	}
	return cmp.Or(
		eachWithin("excluded", settings.Excluded, maxSubject), uniform("id", &account.ID),
		within("time_zone", settings.TimeZone, 1, maxZone), within("language", settings.Language, 1, maxLang))
}

// outsideOfChats checks what an account holds beside its chats.
func (r *rules) outsideOfChats(record *Record) error {
	switch {
	case record.Memory != nil:
		if r.outside.Memories >= MaxMemories {
			return wrong("too_many_memories", fmt.Sprintf("there are more than %d memories", MaxMemories))
		}
		if err := r.remembered(record.Memory); err != nil {
			return err
		}
		return r.memories.add(record.Memory.ID, "duplicate_id", "there is a memory with this id already")
	case record.Entity != nil, record.Relationship != nil:
	case record.AccountEnd != nil:
		r.account = accountEnded
		if *record.AccountEnd != r.outside {
			return wrong("wrong_counts", fmt.Sprintf("the account's end counts %+v, but there are %+v", *record.AccountEnd, r.outside))
		}
	default:
		return wrong("no_chat", "this belongs to a chat, but no chat has begun")
	}
	return nil
}

// remembered checks a memory of the account. Its sources are messages of chats, of this file or others.
func (r *rules) remembered(memory *Memory) error {
	if memory.Origin != "" {
		if err := oneOf("unknown_type", "origin", memory.Origin, "extracted", "user", "assistant", "import"); err != nil {
			return err
		}
	}
	for i := range memory.Sources {
		if err := uniform("chat_id", &memory.Sources[i].ChatID); err != nil {
			return err
		}
	}
	return cmp.Or(uniform("id", &memory.ID), checkMemory(memory))
}

func checkTopic(t *Topic) error {
	if t.Tags == nil {
		t.Tags = []string{}
	}
	t.Title = oneLine(t.Title)
	if err := eachWithin("tags", t.Tags, memory.MaxTag); err != nil {
		return err
	}
	bytes := 2
	for _, tag := range t.Tags {
		bytes += len(tag) + strings.Count(tag, `"`) + strings.Count(tag, `\`) + len(`"",`)
	}
	switch {
	case len(t.Tags) > memory.MaxTags:
		return wrong("too_many_tags", fmt.Sprintf("there are more than %d tags", memory.MaxTags))
	case bytes > maxTopicTags:
		return wrong("bad_length", "the tags are too long together")
	case !(t.Importance >= 0 && t.Importance <= 1):
		return wrong("out_of_range", "importance is not between 0 and 1")
	}
	if t.Renamed && (t.Title == "" || utf8.RuneCountInString(t.Title) > maxTopicTitle) {
		return wrong("bad_length", fmt.Sprintf("title must have 1 to %d characters", maxTopicTitle))
	}
	return storable(t.CreatedAt, t.LastActiveAt)
}

// oneLine makes one space of white space and control characters.
func oneLine(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
}
