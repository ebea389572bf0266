package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/work"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// modelsIn writes a MODELS_FILE.
func modelsIn(t *testing.T, contents string) string {
	path := filepath.Join(t.TempDir(), "models.json")
	require.NoError(t, os.WriteFile(path, []byte(contents), 0o600))
	return path
}

const twoModels = `{"variants": [
	{"name": "arco", "model": "gpt-5.6-terra", "window": 400000, "base_url": "https://a.example/v1", "api_key_env": "ARCO_KEY", "api": "responses",
	 "fallback": "short", "reasoning": "low", "reasoning_summary": "auto", "price": {"input": 1.25, "cached": 0.125, "output": 10}},
	{"name": "local", "model": "m", "base_url": "http://127.0.0.1:1/v1", "api": "chat", "fallback": "arco", "price": {"input": 0.000001, "output": 0}},
	{"name": "plain", "model": "n"}]}`

// The file's variants come before those of MODEL_VARIANTS, and in place of those with the same name.
func TestModelsFile(t *testing.T) {
	t.Parallel()
	e := environment{"MODELS_FILE": modelsIn(t, twoModels), "ARCO_KEY": " sk-arco ", "OPENAI_API_KEY": "sk-default", "MODEL_VARIANTS": "short=s@5000,plain=other"}
	c := parse(t, e, false)
	local := variant("local", "m")
	local.Fallback, local.Price = "arco", work.Price{Input: 1, Cached: 1}
	assert.Equal(t, []chat.Variant{
		{Name: "arco", Model: "gpt-5.6-terra", Window: 400_000, Fallback: "short", ReasoningSummary: true,
			Price: work.Price{Input: 1_250_000, Cached: 125_000, Output: 10_000_000}},
		local, variant("plain", "n"), {Name: "short", Model: "s", Window: 5000},
	}, c.Variants)
	assert.Equal(t, map[string]Server{
		"arco": {BaseURL: "https://a.example/v1", APIKey: "sk-arco", Effort: "low", ReasoningSummary: true}, "plain": {},
		"local": {BaseURL: "http://127.0.0.1:1/v1", Chat: true}, // without the default key
	}, c.Servers)
	assert.NoError(t, c.RequireModel())
	delete(e, "OPENAI_API_KEY")
	c = parse(t, e, false)
	assert.ErrorContains(t, c.RequireModel(), "OPENAI_API_KEY") // memory's jobs ask the default server
	alone := parse(t, environment{"MODELS_FILE": modelsIn(t, `{"variants": [{"name": "a", "model": "m"}]}`)}, false)
	assert.Equal(t, []chat.Variant{variant("a", "m")}, alone.Variants, "the defaults of MODEL_VARIANTS are not added")
	withFiles := parse(t, environment{"MODELS_FILE": modelsIn(t, `{"variants": [{"name": "a", "model": "m", "files": "url", "image_tokens": 1600}]}`)}, false)
	assert.Contains(t, withFiles.Warnings, `files and image_tokens of variant "a" have no effect: models are sent no images`)
}

// Mistakes are told with file, variant and member, and without values.
func TestWrongModelsFile(t *testing.T) {
	t.Parallel()
	for want, contents := range map[string][]string{
		`is no JSON, see line 2`:                                     {"{\"variants\":\n[hunter2]}", "{\"variants\": [],\n}"},
		`is no JSON`:                                                 {`{"variants": [`},
		`is no JSON, see line 1`:                                     {`{"variants": []} {}`},
		`has an unknown member "models"`:                             {`{"models": []}`},
		`must be an object`:                                          {`["hunter2"]`},
		`variants must be a list`:                                    {`{"variants": "hunter2"}`},
		`variants must name one at least`:                            {`{}`, `{"variants": []}`, `null`},
		`variant 1: must be an object`:                               {`{"variants": ["hunter2"]}`},
		`variant 1: name is missing`:                                 {`{"variants": [{}]}`, `{"variants": [null]}`},
		`variant 1: name must be a text`:                             {`{"variants": [{"name": 7}]}`},
		`variant "b": model is missing`:                              {one(`"name": "b"`), one(`"name": "b", "model": " "`)},
		`variant "a": name is another variant's, too`:                {one(`"name": "a", "model": "m"}, {"name": "a", "model": "n"`)},
		`variant "a": window must be from 1000 to 100000000 tokens`:  {member(`"window": 999`), member(`"window": 100000001`)},
		`variant "a": window must be a whole number`:                 {member(`"window": 1.5`), member(`"window": "hunter2"`)},
		`variant "a": base_url must be an http or https address`:     {member(`"base_url": "hunter2"`), member(`"base_url": "ftp://hunter2@a"`)},
		`variant "a": api_key_env names a variable that is not set`:  {member(`"api_key_env": "sk-hunter2"`)},
		`variant "a": api must be responses or chat`:                 {member(`"api": "hunter2"`), member(`"api": ""`)},
		`variant "a": reasoning must be a text`:                      {member(`"reasoning": {}`)},
		`variant "a": reasoning_summary must be auto`:                {member(`"reasoning_summary": "hunter2"`)},
		`variant "a": reasoning_summary has no effect with api chat`: {member(`"api": "chat", "reasoning_summary": "auto"`)},
		`variant "a": fallback is no variant`:                        {member(`"fallback": "hunter2"`)},
		`variant "a": fallback leads back to it`:                     {member(`"fallback": "a"`)},
		`variant "a": has an unknown member "colour"`:                {member(`"colour": "red"`)},
		`variant "a": files must be url or base64`:                   {member(`"files": "ftp"`)},
		`variant "a": image_tokens must be a positive number`:        {member(`"image_tokens": 0`)},
		`variant "a": has an unknown member "images"`:                {member(`"price": {"input": 1, "output": 1, "images": 2}`)},
		`variant "a": price must be an object`:                       {member(`"price": 3`)},
		`variant "a": price.input must be a number`:                  {member(`"price": {"input": "hunter2", "output": 1}`)},
		`variant "a": price.input is missing`:                        {member(`"price": {}`), member(`"price": {"cached": 1, "output": 1}`)},
		`variant "a": price.output is missing`:                       {member(`"price": {"input": 1}`)},
		`variant "a": price.cached must be from 0 to 10000 dollars for a million tokens, with six decimals at most`: {
			member(`"price": {"input": 1, "cached": -1, "output": 1}`), member(`"price": {"input": 1, "cached": 10001, "output": 1}`),
			member(`"price": {"input": 1, "cached": 0.0000001, "output": 1}`)},
	} {
		for _, text := range contents {
			found := problems(t, environment{"MODELS_FILE": modelsIn(t, text)})
			assert.Equal(t, []string{"MODELS_FILE models.json: " + want}, found, text)
		}
	}
	circle := one(`"name": "a", "model": "m", "fallback": "b"}, {"name": "b", "model": "m", "fallback": "c"}, {"name": "c", "model": "m", "fallback": "b"`)
	found := problems(t, environment{"MODELS_FILE": modelsIn(t, circle)})
	assert.Equal(t, `MODELS_FILE models.json: variant "b": fallback leads back to it; MODELS_FILE models.json: variant "c": fallback leads back to it`,
		strings.Join(found, "; "), "what leads into the circle is not in it")
}

func one(members string) string { return `{"variants": [{` + members + `}]}` }

func member(members string) string { return one(`"name": "a", "model": "m", ` + members) }
