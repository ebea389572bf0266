package bundle

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestMarkdownOfAChat(t *testing.T) {
	t.Parallel()
	chat, _, messages, _ := sample()
	var out strings.Builder
	m := NewMarkdown(&out)
	if err := errors.Join(m.Begin(exportedAt, chat), m.Message(messages[0]), m.Message(messages[1]), m.Message(messages[2])); err != nil {
		t.Fatal(err)
	}
	want := "# Scales \\<\\&\\> “arpeggios”\n\n- Begun: 2026-11-20 10:00 UTC\n- Last message: 2026-11-20 10:00 UTC\n- Exported: 2026-11-21 15:04 UTC\n" +
		"- Tags: cello, b\n\n**Instructions**\n\n> Be kind.\n" +
		"\n---\n\n**User** (ann), 2026-11-20 10:00 UTC, pinned\n\n> line\n> \"two\"\u2028 👩\u200d👧\n" +
		"\n---\n\n**Assistant** (arco), 2026-11-20 10:00 UTC, interrupted, replaced by a later reply\n" +
		"\n```json\n[{\"function\":{\"arguments\":\"{}\",\"name\":\"f\"},\"id\":\"call_1\"}]\n```\n" +
		"\n---\n\n**Tool**, 2026-11-20 10:00 UTC\n\n> 42\n"
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Whatever is said, a line of its own is a quoted one, and a file ends only at its own fence.
func TestNothingBreaksMarkdownsFrame(t *testing.T) {
	t.Parallel()
	tricks := rapid.SampledFrom([]string{"```", "````\n", "~~~", "\n---\n", "**User**", "# Title", "\r", "\r\n", "<!--", "</details>", "> ", "\n\n", "x"})
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(tricks, 0, 12).Draw(t, "text"), "")
		for line := range strings.SplitSeq(strings.TrimSuffix(quote(text), "\n"), "\n") {
			if !strings.HasPrefix(line, ">") || strings.Contains(line, "\r") {
				t.Errorf("%q stands alone", line)
			}
		}
		lines := strings.Split(strings.TrimSuffix(fenced("", text), "\n"), "\n")
		fence := lines[0]
		if strings.Trim(fence, "`") != "" || lines[len(lines)-1] != fence || strings.Contains(text, fence) {
			t.Errorf("%q is not fenced: %q", text, lines)
		}
		if title := plainText(text); strings.ContainsAny(title, "\r\n") || strings.Contains(strings.ReplaceAll(title, "\\`", ""), "`") {
			t.Errorf("%q is not plain", title)
		}
	})
}

func TestMarkdownShowsAFileOnce(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	m := NewMarkdown(&out)
	file := File{SHA256: sum("a ```` b"), Content: "a ```` b"}
	for _, path := range []string{"one.md", "two`.md"} {
		if err := m.File(path, file); err != nil {
			t.Fatal(err)
		}
	}
	if got := out.String(); got != "\nFile one.md:\n\n`````\na ```` b\n`````\n\nFile two\\`.md: the same as one.md above.\n" {
		t.Errorf("%s", got)
	}
}
