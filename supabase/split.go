package supabase

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// statement is one statement of a file, without its semicolon and with the comments before it: what
// the Supabase CLI keeps in the history.
type statement struct {
	text string
	line int // of text's first character in the file, from 1
	code int // where in text the statement itself begins, in bytes; len(text) for comments alone
}

// splitStatements cuts SQL at the semicolons that end a statement: not those in quotes, comments,
// dollar quotes, parentheses (CREATE RULE) or the body of a BEGIN ATOMIC function.
// It reads as Postgres does with standard_conforming_strings on.
func splitStatements(sql string) []statement {
	var found []statement
	s := splitter{sql: sql, code: -1}
	for start := 0; start < len(sql); start = s.at {
		s.reachEnd()
		if one := s.cut(start); one.text != "" {
			found = append(found, one)
		}
	}
	return found
}

// splitter walks over a file, token by token.
type splitter struct {
	sql  string
	at   int // the next byte to read
	code int // where the statement's first token that is no comment began; -1 before it

	parens   int    // open parentheses
	body     int    // open BEGIN ATOMIC and CASE, whose END is still to come
	lastWord string // in lower case, for the pair BEGIN ATOMIC
}

// reachEnd walks to after the semicolon that ends the statement, or to the end of the file.
func (s *splitter) reachEnd() {
	s.code, s.parens, s.body, s.lastWord = -1, 0, 0, ""
	for s.at < len(s.sql) {
		begin := s.at
		end, comment := tokenEnd(s.sql, begin)
		s.at = end
		if comment || isSpace(s.sql[begin]) {
			continue
		}
		if s.code < 0 {
			s.code = begin
		}
		if s.ends(s.sql[begin:end]) {
			return
		}
	}
}

// ends takes note of a token and tells whether it ends the statement.
func (s *splitter) ends(token string) bool {
	switch first := token[0]; {
	case first == '(':
		s.parens++
	case first == ')':
		s.parens = max(0, s.parens-1)
	case first == ';':
		return s.parens == 0 && s.body == 0
	case isWordStart(first):
		s.noteWord(strings.ToLower(token))
	}
	return false
}

func (s *splitter) noteWord(word string) {
	switch {
	case word == "atomic" && s.lastWord == "begin", word == "case" && s.body > 0:
		s.body++
	case word == "end" && s.body > 0:
		s.body--
	}
	s.lastWord = word
}

// cut gives the statement between start and where the splitter stands.
func (s *splitter) cut(start int) statement {
	raw := strings.TrimRight(s.sql[start:s.at], ";")
	text := strings.TrimSpace(raw)
	textStart := start + strings.Index(raw, text)
	code := len(text)
	if s.code >= 0 {
		code = min(code, s.code-textStart)
	}
	return statement{text: text, line: 1 + strings.Count(s.sql[:textStart], "\n"), code: code}
}

// lineAt gives the line in the file of a place in the statement: position as Postgres counts it, in
// characters from 1. With 0, which means unknown, it is the line where the statement itself begins.
func (s statement) lineAt(position int) int {
	offset := s.code
	if position > 0 {
		offset = runeOffset(s.text, position-1)
	}
	return s.line + strings.Count(s.text[:offset], "\n")
}

func runeOffset(text string, runes int) int {
	for offset := range text {
		if runes == 0 {
			return offset
		}
		runes--
	}
	return len(text)
}

// tokenEnd gives the end of the token that begins at i. Whatever is left open ends with the file.
func tokenEnd(sql string, i int) (end int, comment bool) {
	rest := sql[i:]
	switch {
	case strings.HasPrefix(rest, "--"):
		return i + endOrLen(rest, strings.IndexByte(rest, '\n'), 1), true
	case strings.HasPrefix(rest, "/*"):
		return i + blockCommentLen(rest), true
	case rest[0] == '\'' || rest[0] == '"':
		return i + quoteLen(rest, false), false
	case (rest[0] == 'e' || rest[0] == 'E') && strings.HasPrefix(rest[1:], "'"):
		return i + 1 + quoteLen(rest[1:], true), false
	case rest[0] == '$':
		return i + dollarQuoteLen(rest), false
	case isWordStart(rest[0]):
		return i + wordLen(rest), false
	}
	return i + 1, false
}

// endOrLen gives the end of something of width bytes found at index, or everything when it was not.
func endOrLen(rest string, index, width int) int {
	if index < 0 {
		return len(rest)
	}
	return index + width
}

// blockCommentLen measures a comment that may hold others.
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

// quoteLen measures a string or a quoted name. A doubled quote closes and opens again at once, which
// comes to the same.
func quoteLen(rest string, backslashes bool) int {
	for i := 1; i < len(rest); i++ {
		if backslashes && rest[i] == '\\' {
			i++
			continue
		}
		if rest[i] != rest[0] {
			continue
		}
		if !strings.HasPrefix(rest[i+1:], rest[:1]) {
			return i + 1
		}
		i++
	}
	return len(rest)
}

// dollarQuoteLen measures $tag$ … $tag$, or the one $ of a parameter.
func dollarQuoteLen(rest string) int {
	closing := strings.IndexByte(rest[1:], '$')
	if closing < 0 {
		return 1
	}
	tag := rest[1 : 1+closing]
	if tag != "" && (!isWordStart(tag[0]) || wordLen(tag) != len(tag)) {
		return 1
	}
	open := len(tag) + 2
	body := rest[open:]
	return open + endOrLen(body, strings.Index(body, rest[:open]), open)
}

func wordLen(rest string) int {
	end := slices.IndexFunc([]byte(rest), func(c byte) bool {
		return !isWordStart(c) && (c < '0' || c > '9') && c != '$'
	})
	return endOrLen(rest, end, 0)
}

// isWordStart tells whether a name or keyword may begin with c; bytes of other scripts' letters may.
func isWordStart(c byte) bool {
	return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c >= utf8.RuneSelf
}

func isSpace(c byte) bool {
	return strings.IndexByte(" \t\r\n\f\v", c) >= 0
}
