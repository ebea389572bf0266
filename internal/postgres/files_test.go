package postgres

import (
	"crypto/sha256"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

// filesOf returns files, given path, content, path, content …
func filesOf(pathsAndContents ...string) []chat.NewFile {
	var files []chat.NewFile
	for pair := range slices.Chunk(pathsAndContents, 2) {
		files = append(files, chat.NewFile{File: memory.File{Path: pair[0], Content: pair[1]}, SHA256: sha256.Sum256([]byte(pair[1])), Tokens: text.Tokens(pair[1])})
	}
	return files
}

// read returns the paths and contents that a turn found.
func read(files []memory.StoredFile) string {
	var all []string
	for _, f := range files {
		all = append(all, f.Path+": "+f.Content)
	}
	return strings.Join(all, "; ")
}

func (b *bed) sendFiles(chatID uuid.UUID, pathsAndContents ...string) chat.StartedTurn {
	b.t.Helper()
	turn := turnIn(chatID, "Look at these.")
	turn.Files = filesOf(pathsAndContents...)
	started := b.start(turn)
	b.reply(turn, "Seen.")
	return started
}

// A chat stores each content once, however often and under whatever paths it was sent. A turn reads all
// sendings, newest first, with its own and without those of other chats.
func TestFilesAreStoredOnce(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	first := firstTurn("Look.")
	first.Files = filesOf("a.txt", "alpha", "b.txt", "beta", "c.txt", "alpha")
	started := b.start(first)
	b.reply(first, "Seen.")
	if got := read(started.Files); got != "c.txt: alpha; b.txt: beta; a.txt: alpha" {
		t.Errorf("the first turn reads %s", got)
	}
	if f := started.Files[1]; f.SHA256 != sha256.Sum256([]byte("beta")) || f.Tokens != text.Tokens("beta") {
		t.Errorf("%+v", f)
	}
	b.sendFiles(b.newChat(1), "elsewhere.txt", "alpha")
	started = b.sendFiles(first.ChatID, "a.txt", "alpha 2", "d.txt", "beta")
	if got := read(started.Files); got != "d.txt: beta; a.txt: alpha 2; c.txt: alpha; b.txt: beta; a.txt: alpha" {
		t.Errorf("the second turn reads %s", got)
	}
	if got := read(b.peek(first.ChatID).Files); got != read(started.Files) {
		t.Errorf("the third turn reads %s", got)
	}
	if n := ask[int](b, "select count(*) from chat_files where chat_id = $1", first.ChatID); n != 3 {
		t.Errorf("%d contents are stored", n)
	}
	if n := ask[int](b, "select count(*) from message_files where message_id = $1 and place between 1 and 3", first.UserMessageID); n != 3 {
		t.Errorf("%d sendings are stored", n)
	}
}

// Files are deleted with the last message that brought them, and with the chat.
func TestFilesGoWithTheirMessages(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := b.newChat(1)
	b.sendFiles(chatID, "a.txt", "alpha", "b.txt", "beta")
	b.sendFiles(chatID, "c.txt", "alpha")
	b.exec("delete from messages where chat_id = $1 and seq = 3", chatID)
	if got := read(b.peek(chatID).Files); got != "c.txt: alpha" {
		t.Errorf("after the first message went: %s", got)
	}
	if n := ask[int](b, "select count(*) from chat_files"); n != 1 {
		t.Errorf("%d contents are stored", n)
	}
	b.exec("delete from chats")
	if n := ask[int](b, "select (select count(*) from chat_files) + (select count(*) from message_files)"); n != 0 {
		t.Errorf("%d rows outlive their chat", n)
	}
}

// A turn that does not start stores no files: because a reply is running, or because the message was sent
// before.
func TestFilesOfNoTurnAreNotStored(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := b.newChat(1)
	turn := turnIn(chatID, "Look.")
	turn.ClientMessageID, turn.Files = uuid.New(), filesOf("a.txt", "alpha")
	b.start(turn)
	busy := turnIn(chatID, "And this.")
	busy.Files = filesOf("b.txt", "beta")
	repeated := turn
	repeated.UserMessageID, repeated.MessageID = uuid.New(), uuid.New()
	stranger := busy
	for _, refused := range []struct {
		user bool
		turn chat.NewTurn
	}{{true, busy}, {true, repeated}, {false, stranger}} {
		user := b.user
		if !refused.user {
			user = b.newUser()
		}
		if started, err := b.turns.StartTurn(t.Context(), user, refused.turn); err != nil || started.Started || !refused.user && len(started.Files) > 0 {
			t.Errorf("%+v, %v", started, err)
		}
	}
	b.fail(turn, "")
	retried := b.start(repeatOf(turn))
	if got := read(retried.Files); got != "a.txt: alpha" {
		t.Errorf("tried again it reads %s", got)
	}
	if n := ask[int](b, "select (select count(*) from chat_files) + (select count(*) from message_files)"); n != 2 {
		t.Errorf("%d rows of one file", n)
	}
}

// Files from before a clear are in no prompt. Of files too far back not even the content is read.
func TestFilesThatNoPromptShowsAreNotRead(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	chatID := s.newChat(1)
	s.sendFiles(chatID, "before.txt", "from before")
	s.clear(chatID)
	large := func(first string) string { return first + strings.Repeat(" word", 40_000) }
	s.sendFiles(chatID, "1.txt", large("one"))
	s.sendFiles(chatID, "2.txt", large("two"), "again.txt", large("two"))
	s.sendFiles(chatID, "3.txt", large("three"), "empty.txt", "")
	got := s.peek(chatID).Files
	paths := make([]string, len(got))
	for i, f := range got {
		paths[i] = f.Path
		if (f.Content == "") != (f.Path == "1.txt" || f.Path == "empty.txt") || f.Path == "1.txt" && f.Tokens != 40_001 {
			t.Errorf("%s has %d bytes, %d tokens", f.Path, len(f.Content), f.Tokens)
		}
	}
	if want := "empty.txt 3.txt again.txt 2.txt 1.txt"; strings.Join(paths, " ") != want {
		t.Errorf("read %v, want %s", paths, want)
	}
}
