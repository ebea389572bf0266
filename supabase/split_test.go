package supabase_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/arcoscribe/throughline/supabase"
)

func TestSplitStatements(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sql  string
		want []string
	}{
		"nothing":                        {"", nil},
		"only space":                     {" \n\t", nil},
		"empty statements":               {";; ; select 1;;", []string{"select 1"}},
		"no last semicolon":              {"select 1; select 2", []string{"select 1", "select 2"}},
		"comment before belongs to it":   {"select 1;\n-- two;\nselect 2;", []string{"select 1", "-- two;\nselect 2"}},
		"comment after the last":         {"select 1;\n-- end", []string{"select 1", "-- end"}},
		"nested comment":                 {"/* a; /* b; */ c; */ select 1; select 2", []string{"/* a; /* b; */ c; */ select 1", "select 2"}},
		"comment left open":              {"/* a; /* b; */ select 1; select 2", []string{"/* a; /* b; */ select 1; select 2"}},
		"minus and slash":                {"select 1 - 2 / 3; select 4", []string{"select 1 - 2 / 3", "select 4"}},
		"string":                         {"select ';', 'it''s;'; select 2", []string{"select ';', 'it''s;'", "select 2"}},
		"string that ends in backslash":  {`select '\'; select 2`, []string{`select '\'`, "select 2"}},
		"escape string":                  {`select E'\';'; select e'\\'; select 3`, []string{`select E'\';'`, `select e'\\'`, "select 3"}},
		"a name that ends in e":          {`select type'\'; select 2`, []string{`select type'\'`, "select 2"}},
		"quoted name":                    {`select ";""'" ; select 2`, []string{`select ";""'"`, "select 2"}},
		"dollar quotes":                  {"do $$ a; $x$ b; $$; do $x$ $$; $x$", []string{"do $$ a; $x$ b; $$", "do $x$ $$; $x$"}},
		"dollar in a name":               {"select a$b; select c$b", []string{"select a$b", "select c$b"}},
		"parameters":                     {"select $1; select $1", []string{"select $1", "select $1"}},
		"dollar alone":                   {"select $; select 2", []string{"select $", "select 2"}},
		"dollar quote left open":         {"do $$ a; b", []string{"do $$ a; b"}},
		"rule with two actions":          {"create rule r do (select 1; select 2); select 3", []string{"create rule r do (select 1; select 2)", "select 3"}},
		"parenthesis in a string":        {"select '('; select 2", []string{"select '('", "select 2"}},
		"parenthesis too many":           {"select 1); select (2; 3)", []string{"select 1)", "select (2; 3)"}},
		"atomic body":                    {"create function f() BEGIN\n ATOMIC select case when a then b end; select 2; END; select 3", []string{"create function f() BEGIN\n ATOMIC select case when a then b end; select 2; END", "select 3"}},
		"begin and end of a transaction": {"begin; select case when a then b end; end", []string{"begin", "select case when a then b end", "end"}},
		"a column called atomic":         {"select atomic; select 2", []string{"select atomic", "select 2"}},
		"other scripts":                  {"select ü$ü$ü; select $ü$;$ü$", []string{"select ü$ü$ü", "select $ü$;$ü$"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, _ := supabase.Split(c.sql)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSplitKnowsTheLines(t *testing.T) {
	t.Parallel()
	_, lines := supabase.Split("select 1;\n\n-- why\nselect 2; select 3;\n/* a\n b */ select 4;\n-- end\n")
	if diff := cmp.Diff([]int{1, 4, 4, 6, 7}, lines); diff != "" {
		t.Error(diff)
	}
}

// Splitting removes only semicolons and space, and a statement does not split again.
func FuzzSplitStatements(f *testing.F) {
	for _, seed := range []string{"select 1; select ';'", "do $a$;$a$;", "/*/*;*/*/;", "E'\\';", "begin atomic;end;", "(;", "$é$;$é$"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, sql string) {
		if !utf8.ValidString(sql) {
			return
		}
		texts, lines := supabase.Split(sql)
		if bare(strings.Join(texts, "")) != bare(sql) {
			t.Errorf("%q became %q", sql, texts)
		}
		for i, line := range lines {
			if line < 1 || line > 1+strings.Count(sql, "\n") || i > 0 && line < lines[i-1] {
				t.Errorf("lines %v of %q", lines, sql)
			}
		}
		for _, text := range texts {
			if again, _ := supabase.Split(text); len(again) != 1 {
				t.Errorf("%q splits again into %q", text, again)
			}
		}
	})
}

// bare removes white space and semicolons.
func bare(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == ';' || unicode.IsSpace(r) }), "")
}
