package supabase

import (
	"regexp"
	"strings"
)

// statement is one statement of a file, without its semicolon and with the comments before it, as the
// Supabase CLI stores it in the history.
type statement struct {
	text string
	line int // of text's first character in the file, counted from 1
	code int // byte offset in text at which the comments end; len(text) if there are only comments
}

// lineAt returns the line in the file of a position in the statement, as Postgres reports it: in characters,
// counted from 1. For 0, which means unknown, it returns the line after the comments.
func (s statement) lineAt(position int) int {
	before := s.text[:s.code]
	if position > 0 {
		characters := []rune(s.text)
		before = string(characters[:min(position-1, len(characters))])
	}
	return s.line + strings.Count(before, "\n")
}

// splitStatements splits SQL at the semicolons that end a statement: not those in quotes, comments,
// dollar quotes, parentheses (CREATE RULE) or the body of a BEGIN ATOMIC function. It assumes
// standard_conforming_strings.
func splitStatements(sql string) []statement {
	var found []statement
	for start := 0; start < len(sql); {
		codeStart, end := findEnd(sql, start)
		raw := strings.TrimRight(sql[start:end], ";")
		text := strings.TrimSpace(raw)
		if text != "" {
			textStart := start + strings.Index(raw, text)
			found = append(found, statement{
				text: text,
				line: 1 + strings.Count(sql[:textStart], "\n"),
				code: min(codeStart-textStart, len(text)),
			})
		}
		start = end
	}
	return found
}

// findEnd returns where the code of the statement at start begins, after its comments, and where the
// statement ends, after its semicolon. Both are len(sql) at the latest.
func findEnd(sql string, start int) (codeStart, end int) {
	codeStart = len(sql)
	parens := 0    // open parentheses
	body := 0      // open BEGIN ATOMIC and CASE, each closed by END
	previous := "" // the token before, in lower case
	for at := start; at < len(sql); {
		length, isBlank := nextToken(sql[at:])
		token := strings.ToLower(sql[at : at+length])
		at += length
		if isBlank {
			continue
		}
		codeStart = min(codeStart, at-length)
		switch {
		case token == "(":
			parens++
		case token == ")":
			parens = max(0, parens-1)
		case token == ";" && parens == 0 && body == 0:
			return codeStart, at
		case token == "atomic" && previous == "begin", token == "case" && body > 0:
			body++
		case token == "end" && body > 0:
			body--
		}
		previous = token
	}
	return codeStart, len(sql)
}

// A string, quoted name, comment or dollar quote that is not closed extends to the end of the file.
var (
	blankToken  = regexp.MustCompile(`^(?:[ \t\r\n\f\v]+|--[^\n]*)`)
	dollarQuote = regexp.MustCompile(`^\$(?:[A-Za-z_\x{80}-\x{10FFFF}][A-Za-z0-9_\x{80}-\x{10FFFF}]*)?\$`)
	codeToken   = regexp.MustCompile(`(?s)^(?:` +
		`[eE]'(?:[^'\\]|''|\\.)*'?` + // a string with backslash escapes
		`|'(?:[^']|'')*'?|"(?:[^"]|"")*"?` + // a string, a quoted name
		`|[A-Za-z_\x{80}-\x{10FFFF}][A-Za-z0-9_$\x{80}-\x{10FFFF}]*` + // a name or keyword
		`|.)`)
)

// nextToken returns the length in bytes of the token at the beginning of rest, and whether it is white space
// or a comment.
func nextToken(rest string) (length int, isBlank bool) {
	if strings.HasPrefix(rest, "/*") {
		return blockCommentLen(rest), true
	}
	if length := len(blankToken.FindString(rest)); length > 0 {
		return length, true
	}
	if quote := dollarQuote.FindString(rest); quote != "" {
		body, _, closed := strings.Cut(rest[len(quote):], quote)
		if !closed {
			return len(rest), false
		}
		return len(quote) + len(body) + len(quote), false
	}
	return len(codeToken.FindString(rest)), false
}

// blockCommentLen returns the length of a comment, which may contain other comments.
func blockCommentLen(rest string) int {
	depth := 0
	for i := 0; i < len(rest); {
		switch {
		case strings.HasPrefix(rest[i:], "/*"):
			depth++
			i += 2
		case strings.HasPrefix(rest[i:], "*/"):
			depth--
			i += 2
		default:
			i++
		}
		if depth == 0 {
			return i
		}
	}
	return len(rest)
}
