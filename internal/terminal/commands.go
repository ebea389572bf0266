package terminal

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/client"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

// How many items the commands show.
const (
	chatsShown      = 20
	messagesShown   = 20
	recapShown      = 4
	resultsShown    = 10
	maxTitleColumns = 60
)

//go:embed help.txt
var help string

var errNoChat = errors.New("there is no chat yet: say something, or /load one")

// command runs a line that begins with a slash.
func (t *talk) command(ctx context.Context, line string) error {
	name, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	commands := map[string]func(context.Context, string) error{
		"/sessions": t.sessions, "/load": t.loadNamed, "/new": t.begin, "/search": t.search, "/model": t.model,
		"/memories": t.memories, "/remember": t.remember,
		"/help": func(context.Context, string) error { return t.told(nil, "%s", help) },
	}
	ofChat := map[string]func(context.Context, string) error{
		"/save": t.save, "/history": t.history, "/clear": t.clear, "/forget": t.forget, "/memory": t.memory, "/why": t.why, "/topics": t.topics, "/export": t.export,
		"/edit": t.edit, "/again": t.again, "/versions": t.showVersions,
		"/pin":   func(ctx context.Context, number string) error { return t.pin(ctx, number, true) },
		"/unpin": func(ctx context.Context, number string) error { return t.pin(ctx, number, false) },
	}
	if do, known := commands[name]; known {
		return do(ctx, rest)
	}
	if name == "/forget" && rest != "" {
		return t.forgetMemories(ctx, rest)
	}
	do, known := ofChat[name]
	switch {
	case !known:
		return fmt.Errorf("there is no command %s; /help lists them", name)
	case t.chatID == uuid.Nil:
		return errNoChat
	}
	return do(ctx, rest)
}

func (t *talk) sessions(ctx context.Context, _ string) error {
	page, err := t.Client.Chats(ctx, chatsShown)
	if err != nil {
		return err
	}
	t.listed = page.Chats
	for i, chat := range page.Chats {
		t.print("%3d  %s\n", i+1, ChatLine(chat))
	}
	if len(page.Chats) == 0 {
		t.print("You have no chats yet.\n")
	}
	if page.NextCursor != nil {
		t.print("     … and more: `throughline sessions list` shows all of them.\n")
	}
	return nil
}

// ChatLine formats a chat as one line.
func ChatLine(chat api.Chat) string {
	title := cmp.Or(text.Shorten(OneLine(chat.Title), maxTitleColumns), "(no title)")
	if chat.Expired {
		title += "  (expired)"
	}
	last := cmp.Or(chat.LastMessageAt, &chat.CreatedAt)
	return fmt.Sprintf("%s  %10s  %s", last.Local().Format("2006-01-02 15:04"), counted(int(chat.TurnCount), "turn"), title)
}

func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func (t *talk) loadNamed(ctx context.Context, which string) error {
	if number, err := strconv.Atoi(which); err == nil && len(t.listed) == 0 {
		return fmt.Errorf("number %d of what? /sessions lists your chats", number)
	} else if err == nil && (number < 1 || number > len(t.listed)) {
		return fmt.Errorf("the list goes from 1 to %d", len(t.listed))
	} else if err == nil {
		return t.load(ctx, t.listed[number-1].ID)
	}
	id, err := uuid.Parse(which)
	if err != nil {
		return errors.New("/load wants a number of /sessions or a chat's id")
	}
	return t.load(ctx, id)
}

func (t *talk) load(ctx context.Context, id uuid.UUID) error {
	chat, err := t.Client.Chat(ctx, id)
	if client.IsCode(err, fault.ChatExpired) {
		revived, reviveErr := t.offerRevival(ctx, id)
		if reviveErr != nil || !revived {
			return reviveErr
		}
		chat, err = t.Client.Chat(ctx, id)
	}
	if err != nil {
		return err
	}
	t.chatID, t.last = id, uuid.Nil
	t.print("%s\n", ChatLine(chat))
	return t.show(ctx, recapShown)
}

func (t *talk) begin(_ context.Context, kind string) error {
	if kind != "" && kind != "temporary" {
		return errors.New("/new wants nothing, or temporary")
	}
	t.chatID, t.Temporary = uuid.Nil, kind != ""
	if t.Temporary {
		return t.told(nil, "The next message begins a temporary chat: nothing of it is remembered in others.\n")
	}
	return t.told(nil, "The next message begins a new chat.\n")
}

func (t *talk) save(ctx context.Context, title string) error {
	if title == "" {
		return errors.New("everything is stored already; /save TITLE names this chat")
	}
	chat, err := t.Client.Change(ctx, t.chatID, map[string]any{"title": title})
	return t.told(err, "This chat is called %s. Everything that was said was stored already.\n", OneLine(chat.Title))
}

func (t *talk) history(ctx context.Context, count string) error {
	number, err := countOf(count, messagesShown)
	if err != nil {
		return fmt.Errorf("/history shows %w", err)
	}
	return t.show(ctx, number)
}

// countOf reads a number of messages; otherwise stands for none.
func countOf(text string, otherwise int) (int, error) {
	if text == "" {
		return otherwise, nil
	}
	number, err := strconv.Atoi(text)
	if err != nil || number < 1 || number > api.MaxMessages {
		return 0, fmt.Errorf("1 to %d messages", api.MaxMessages)
	}
	return number, nil
}

// pin pins or unpins the message that is the last, or that comes so many from the end.
func (t *talk) pin(ctx context.Context, fromEnd string, pinned bool) error {
	number, err := countOf(fromEnd, 1)
	if err != nil {
		return fmt.Errorf("/pin and /unpin count back %w", err)
	}
	page, err := t.Client.Messages(ctx, t.chatID, number)
	if err != nil {
		return err
	}
	if len(page.Messages) < number {
		return fmt.Errorf("this chat has %d messages", len(page.Messages))
	}
	message, err := t.Client.Pin(ctx, page.Messages[0].ID, pinned)
	if err != nil {
		return err
	}
	t.print("%s\n", text.Shorten(OneLine(MessageText(message)), maxTitleColumns))
	chat, err := t.Client.Chat(ctx, t.chatID)
	if err == nil && pinned && chat.MemoryStrategy != "hybrid" {
		t.print("This chat's memory_strategy is %s: its pins count once that is hybrid.\n", OneLine(chat.MemoryStrategy))
	}
	return err
}

func (t *talk) show(ctx context.Context, count int) error {
	page, err := t.Client.Messages(ctx, t.chatID, count)
	if err != nil {
		return err
	}
	for _, message := range page.Messages {
		t.print("%s", MessageText(message))
		t.last = message.ID
	}
	return nil
}

// MessageText formats a message for a person, with a line end.
func MessageText(message api.Message) string {
	who := cmp.Or(map[string]string{"user": "you", "assistant": "reply"}[message.Role], Clean(message.Role))
	if message.Pinned {
		who += " (pinned)"
	}
	if message.Versions > 1 {
		who += fmt.Sprintf(" (%d of %d)", message.Version, message.Versions)
	}
	ending := ""
	if message.Status != "complete" {
		ending = " (" + OneLine(message.Status) + ")"
	}
	return fmt.Sprintf("%s> %s%s\n", who, strings.TrimRight(Clean(message.Content), "\n"), ending)
}

func (t *talk) clear(ctx context.Context, _ string) error {
	_, err := t.Client.Clear(ctx, t.chatID)
	return t.told(err, "The model starts afresh. /history still shows what was said.\n")
}

func (t *talk) forget(ctx context.Context, _ string) error {
	yes, err := t.ask(ctx, "Delete this chat, its messages and its memory for good?")
	switch {
	case err != nil:
		return err
	case !yes:
		return t.told(nil, "Nothing was deleted.\n")
	}
	if err := t.Client.Delete(ctx, t.chatID); err != nil {
		return err
	}
	t.chatID = uuid.Nil
	return t.told(nil, "The chat is gone. The next message begins a new one.\n")
}

func (t *talk) search(ctx context.Context, words string) error {
	if words == "" {
		return errors.New("/search wants words")
	}
	found, err := t.Client.Search(ctx, words, resultsShown)
	if err != nil {
		return err
	}
	t.listed = nil
	for i, result := range found {
		t.listed = append(t.listed, api.Chat{ID: result.ChatID})
		t.print("%3d  %s  %s: %s\n     %s\n", i+1, result.CreatedAt.Local().Format("2006-01-02 15:04"),
			text.Shorten(OneLine(result.ChatTitle), maxTitleColumns), OneLine(result.Role), OneLine(result.Text))
	}
	if len(found) == 0 {
		return t.told(nil, "Nothing was found.\n")
	}
	return t.told(nil, "/load NUMBER goes on with the chat.\n")
}

func (t *talk) memory(ctx context.Context, _ string) error {
	memory, err := t.Client.Memory(ctx, t.chatID)
	if err != nil {
		return err
	}
	t.print("%s, %d tokens. %s\n", OneLine(string(memory.Strategy)), memory.Tokens, OneLine(memory.Coverage))
	for _, section := range memory.Sections {
		t.print("\n[%s: %d tokens, %s]\n%s\n", OneLine(section.Name), section.Tokens, counted(section.Turns, "turn"), strings.TrimRight(Clean(section.Text), "\n"))
	}
	return nil
}

func (t *talk) why(ctx context.Context, _ string) error {
	page, err := t.Client.Messages(ctx, t.chatID, messagesShown)
	if err != nil {
		return err
	}
	for _, message := range slices.Backward(page.Messages) {
		if message.Role == "assistant" {
			why, err := t.Client.Why(ctx, message.ID)
			if err == nil {
				t.printWhy(why)
			}
			return err
		}
	}
	return errors.New("there is no reply among the last messages")
}

func (t *talk) printWhy(why api.Why) {
	receipt := why.Receipt
	if receipt == nil {
		t.print("There is no receipt of this reply.\n")
		return
	}
	t.print("%s word for word, %d dropped, %d kept messages, %d files, %d sources.\n",
		counted(receipt.BridgeTurns+receipt.TailTurns, "turn"), receipt.DroppedTurns, receipt.KeptMessages, receipt.Files, receipt.Sources)
	if why.Brief != nil {
		text := "(removed since)"
		if why.Brief.Text != nil {
			text = strings.TrimRight(Clean(*why.Brief.Text), "\n")
		}
		t.print("\n[brief v%d, %d tokens]\n%s\n", why.Brief.Version, receipt.BriefTokens, text)
	}
	for _, m := range why.Memories {
		t.print("\n[memory] %s\n", Clean(m.Content))
		for _, source := range m.Sources {
			t.print("  said on %s, message %d: %s\n", source.SaidAt.Local().Format(time.DateOnly), source.Seq, strings.TrimRight(Clean(source.Quote), "\n"))
		}
	}
	if why.Topic != nil {
		t.print("\n[back at the topic] %s\n", OneLine(why.Topic.Title))
	}
	switch receipt.Recall {
	case "", "none":
		return
	case "late":
		t.print("\n[nothing was recalled: the lookup was late]\n")
		return
	case "failed":
		t.print("\n[nothing was recalled: the lookup failed]\n")
		return
	}
	t.print("\n[recalled by %s: %s]\n", OneLine(receipt.Recall), counted(len(receipt.Recalled)+len(receipt.RecalledElsewhere), "turn"))
	for _, turn := range why.Recalled {
		t.printTurn(turn)
	}
	for _, turn := range why.Elsewhere {
		t.print("in another chat, %s\n", OneLine(turn.Title))
		t.printTurn(turn.WhyTurn)
	}
}

func (t *talk) printTurn(turn api.WhyTurn) {
	for _, message := range turn.Messages {
		t.print("%s  %s: %s\n", message.CreatedAt.Local().Format(time.DateOnly), OneLine(message.Role), OneLine(*cmp.Or(message.Content, new(string))))
	}
}

// exportFormats maps a file's extension to the API's format.
var exportFormats = map[string]string{".jsonl": "jsonl", ".json": "json", ".md": "markdown"}

func (t *talk) export(ctx context.Context, file string) error {
	format, known := exportFormats[strings.ToLower(filepath.Ext(file))]
	if !known {
		return errors.New("/export wants a file that ends in .jsonl, .json or .md")
	}
	err := WriteFile(file, func(out io.Writer) error { return t.Client.Export(ctx, t.chatID, format, out) })
	return t.told(err, "Written to %s.\n", OneLine(file))
}

func (t *talk) model(_ context.Context, name string) error {
	if name != "" {
		t.Model = name
	}
	if t.Model == "" {
		return t.told(nil, "The server's first model variant answers.\n")
	}
	return t.told(nil, "%s answers.\n", OneLine(t.Model))
}
