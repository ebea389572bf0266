package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// write runs the generator as sqlc does, and returns what it writes of the queries of one file.
func write(t *testing.T, queries string) (string, error) {
	t.Helper()
	options := `{"types": {"uuid": ["github.com/google/uuid.UUID", "github.com/google/uuid.NullUUID"], "text": ["string"],
		"throughline.embedding": ["string"]}, "packages": ["example.org/api"]}`
	encoded, err := json.Marshal([]byte(options))
	require.NoError(t, err)
	var out bytes.Buffer
	if err := run(strings.NewReader(`{"plugin_options": `+string(encoded)+`, "queries": [`+queries+`]}`), &out); err != nil {
		return "", err
	}
	var answer struct{ Files []file }
	require.NoError(t, json.Unmarshal(out.Bytes(), &answer))
	for _, f := range answer.Files {
		if f.Name == "chats.sql.go" {
			return string(f.Contents), nil
		}
	}
	t.Fatalf("no chats.sql.go among %d files", len(answer.Files))
	return "", nil
}

const (
	id    = `{"name": "chat_id", "not_null": true, "type": {"schema": "pg_catalog", "name": "uuid"}}`
	reply = `{"name": "reply_id", "not_null": false, "type": {"schema": "", "name": "pg_catalog.uuid"}}`
	title = `{"name": "title", "not_null": false, "type": {"schema": "", "name": "text"}}`
	tags  = `{"name": "tags", "not_null": false, "array_dims": 1, "type": {"schema": "", "name": "text"}}`
	score = `{"name": "score", "not_null": true, "type": {"schema": "throughline", "name": "embedding"}}`
)

func oneQuery(name, cmd, comment, params, columns string) string {
	var numbered []string
	for _, column := range strings.SplitAfter(params, "}}") {
		if column = strings.TrimLeft(column, ", "); column != "" {
			numbered = append(numbered, `{"column": `+column+`}`)
		}
	}
	return `{"name": "` + name + `", "cmd": "` + cmd + `", "filename": "chats.sql", "text": "select 1", "comments": [` + comment + `],
		"params": [` + strings.Join(numbered, ", ") + `], "columns": [` + columns + `]}`
}

// The code written of a query: its parameters, and rows of its own, of ours, with columns beside ours, or of another query.
func TestWhatIsWrittenOfAQuery(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ query, want string }{
		"no parameters, one column": {
			oneQuery("A", ":one", "", "", title),
			"var A = query.Bare[*string](`-- name: A :one\nselect 1`)",
		},
		"one parameter, no rows": {
			oneQuery("A", ":exec", `" Says why."`, id, ""),
			"// Says why.\nvar A = query.Single[uuid.UUID, struct{}](`",
		},
		"several parameters": {
			oneQuery("A", ":exec", "", title+", "+tags+", "+score, ""),
			"type AParams struct {\n\tTitle *string\n\tTags  []string\n\tScore string\n}",
		},
		"its own rows, whose fields share a line": {
			oneQuery("A", ":many", "", "", tags+", "+reply+", "+strings.Replace(reply, "reply", "other", 1)),
			"type ARow struct {\n\tTags             []string\n\tReplyID, OtherID uuid.NullUUID\n}",
		},
		"ours": {
			oneQuery("A", ":many", `" row: api.Chat"`, "", id+", "+title),
			"import \"github.com/arcoscribe/throughline/internal/postgres/query\"\nvar A = query.Bare[api.Chat](`",
		},
		"ours with a column": {
			oneQuery("A", ":many", `" row: api.Chat + score"`, "", id+", "+score),
			"type ARow struct {\n\tapi.Chat\n\tScore string\n}",
		},
		"another query's": {
			oneQuery("A", ":many", `" row: BRow"`, "", id),
			"var A = query.Bare[BRow](`",
		},
	} {
		got, err := write(t, c.query)
		assert.Truef(t, err == nil && strings.Contains(strings.ReplaceAll(got, "\n\n", "\n"), c.want),
			"%s: %v\n%s\nwant\n%s", name, err, got, c.want)
	}
}

// What the generator does not know stops it.
func TestWhatIsNotKnown(t *testing.T) {
	t.Parallel()
	for want, query := range map[string]string{
		"query A: sqlc.yaml has no type for the money of price": oneQuery("A", ":one", "", "", `{"name": "price", "type": {"name": "money"}}`),
		"sqlc.yaml has no package for rows of type bundle.Chat": oneQuery("A", ":one", `" row: bundle.Chat"`, "", id),
		"its text has a backtick":                               strings.Replace(oneQuery("A", ":one", "", "", id), "select 1", "`", 1),
	} {
		_, err := write(t, query)
		assert.Truef(t, err != nil && strings.Contains(err.Error(), want), "%v, want %s", err, want)
	}
}
