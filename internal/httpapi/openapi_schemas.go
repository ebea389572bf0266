package httpapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/swaggest/jsonschema-go"

	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/streaming"
)

// schemaTypes gives each schema's name and the type it is made of.
var schemaTypes = map[string]reflect.Type{
	"FirstMessageRequest": reflect.TypeFor[firstMessageBody](),
	"MessageRequest":      reflect.TypeFor[messageBody](),
	"Source":              reflect.TypeFor[sourceBody](),
	"NewFile":             reflect.TypeFor[fileBody](),
	"CancelResult":        reflect.TypeFor[cancelBody](),
	"Error":               reflect.TypeFor[errorBody](),
	"Health":              reflect.TypeFor[healthBody](),
	"Root":                reflect.TypeFor[rootBody](),
	"MessageStarted":      reflect.TypeFor[streaming.Started](),
	"ContentDelta":        reflect.TypeFor[streaming.Delta](),
	"Completion":          reflect.TypeFor[streaming.Completed](),
	"MessageFailed":       reflect.TypeFor[streaming.Failed](),
	"MessageCancelled":    reflect.TypeFor[streaming.Cancelled](),
	"Usage":               reflect.TypeFor[streaming.Usage](),
	"MemoryReceipt":       reflect.TypeFor[prompt.Receipt](),
	"WholeReply":          reflect.TypeFor[chat.Whole](),
}

// schemaFamilies are all schemas, by what they are about.
var schemaFamilies = []map[string]reflect.Type{schemaTypes, memorySchemaTypes, historySchemaTypes, searchSchemaTypes, transferSchemaTypes}

// sentenceFamilies are all sentences, in the same way.
var sentenceFamilies = []map[string]string{sentences, memorySentences, historySentences, searchSentences, transferSentences}

// merged is one map of several that have no name in common.
func merged[Value any](families []map[string]Value) map[string]Value {
	all := map[string]Value{}
	for _, family := range families {
		maps.Copy(all, family)
	}
	return all
}

// eventSchemas names the schema of each event's data.
var eventSchemas = map[string]string{
	streaming.EventStarted:   "MessageStarted",
	streaming.EventDelta:     "ContentDelta",
	streaming.EventCompleted: "Completion",
	streaming.EventFailed:    "MessageFailed",
	streaming.EventCancelled: "MessageCancelled",
}

// sentences describe what the types' tags do not.
var sentences = map[string]string{ //nolint:gosec // these tokens are words of a model, no credentials
	"MessageStarted":                  "First event of every stream.",
	"MessageStarted.message_id":       "The assistant's message, which is being written.",
	"MessageStarted.resumed":          "Whether this reader did not start the reply.",
	"MessageStarted.offset":           "Where this stream begins, in characters (Unicode code points) of the reply.",
	"ContentDelta":                    "The next piece of the reply.",
	"ContentDelta.offset":             "Characters of the reply before this piece.",
	"Completion":                      "Terminal event: the reply is whole and stored.",
	"Completion.content_length":       "Characters (Unicode code points) of the whole reply.",
	"MessageFailed":                   "Terminal event: the reply broke off. What was said until then is stored.",
	"MessageFailed.retryable":         "Whether sending the message again, as a new one, may succeed.",
	"MessageFailed.content_length":    "Characters (Unicode code points) that are stored. After a crash a reader may have a few more.",
	"MessageCancelled":                "Terminal event: somebody stopped the reply. What was said until then is stored.",
	"WholeReply":                      "The reply as one object: what completion says, and the text.",
	"MemoryReceipt":                   "What the reply remembered.",
	"MemoryReceipt.dropped_turns":     "Turns that were neither in the brief nor in the prompt.",
	"MemoryReceipt.truncated":         "Whether the brief or a message had to be shortened.",
	"Usage.cached_tokens":             "Those of input_tokens that the provider had in its prompt cache.",
	"FirstMessageRequest":             "A message that starts a chat. null is the same as leaving a field out.",
	"MessageRequest":                  "A message that continues a chat. null is the same as leaving a field out.",
	"Source":                          "A passage retrieved for the question. It is not stored.",
	"CancelResult":                    "The reply that was stopped.",
	"Error":                           "What every failed request is answered with.",
	"Root":                            "What is served here.",
	"Health":                          "The state of the process.",
	"Completion.memory":               "The receipt; null for a reply that was stored without one.",
	"WholeReply.memory":               "The receipt; null for a reply that was stored without one.",
	"WholeReply.finish_reason":        "Why the model stopped; cancelled when somebody stopped it.",
	"MessageStarted.model_variant":    "The model variant that answers.",
	"MessageCancelled.content_length": "Characters (Unicode code points) that were said.",
}

// schemas makes all component schemas.
func schemas() object {
	all := reflected()
	receipt := object{"anyOf": []object{schemaRef("MemoryReceipt"), {"type": "null"}}}
	property(all, "Completion", "memory", receipt)
	property(all, "WholeReply", "memory", maps.Clone(receipt))
	property(all, "WholeReply", "finish_reason", object{"type": "string", "enum": []string{"stop", "length", "content_filter", "cancelled"}})
	codes := slices.Sorted(maps.Keys(statuses))
	property(all, "Error", "code", object{"type": "string", "enum": codes})
	property(all, "MessageFailed", "code", object{"type": "string", "enum": codes})
	correctHistory(all)
	correctMemory(all)
	correctSearch(all)
	correctTransfer(all)
	all["StreamEvent"] = streamEvent()
	all[uiSchema] = uiEvent()
	all["Readiness"] = object{
		"type": "object", "required": []string{"status"}, "properties": object{"status": object{"const": "ready"}}, "additionalProperties": true,
	}
	for place, sentence := range merged(sentenceFamilies) {
		describe(all, place, sentence)
	}
	return all
}

// property replaces the schema of one property.
func property(all object, schema, name string, value object) {
	all[schema].(object)["properties"].(object)[name] = value
}

// neverNull takes null away from a list's types: Go has no word for a list that is always there.
func neverNull(all object, place string) {
	schema, name, _ := strings.Cut(place, ".")
	all[schema].(object)["properties"].(object)[name].(object)["type"] = "array"
}

func describe(all object, place, sentence string) {
	schema, name, isProperty := strings.Cut(place, ".")
	target := all[schema].(object)
	if isProperty {
		target = target["properties"].(object)[name].(object)
	}
	target["description"] = sentence
}

// reflected makes the schemas of schemaTypes.
func reflected() object {
	names := map[reflect.Type]string{reflect.TypeFor[uuid.UUID](): "UUID"}
	types := merged(schemaFamilies)
	for name, of := range types {
		names[of] = name
	}
	all := object{}
	reflector := jsonschema.Reflector{}
	for _, of := range types {
		_, err := reflector.Reflect(reflect.New(of).Elem().Interface(),
			jsonschema.RootRef,
			jsonschema.DefinitionsPrefix(schemaPrefix),
			jsonschema.InterceptDefName(func(t reflect.Type, fallback string) string {
				if name, ok := names[t]; ok {
					return name
				}
				return fallback
			}),
			jsonschema.InterceptSchema(uuidSchema),
			jsonschema.InterceptProp(requireUnlessOmitted),
			jsonschema.CollectDefinitions(func(name string, schema jsonschema.Schema) { all[name] = plain(schema) }),
		)
		if err != nil {
			panic(fmt.Sprintf("httpapi: no schema of %v: %v", of, err))
		}
	}
	return all
}

func uuidSchema(params jsonschema.InterceptSchemaParams) (stop bool, err error) {
	if params.Value.Type() != reflect.TypeFor[uuid.UUID]() {
		return false, nil
	}
	params.Schema.AddType(jsonschema.String)
	params.Schema.WithFormat("uuid")
	return true, nil
}

// requireUnlessOmitted takes the one rule that both directions follow: what has no omitempty is
// always there.
func requireUnlessOmitted(params jsonschema.InterceptPropParams) error {
	tag := params.Field.Tag.Get("json")
	if params.Processed && tag != "" && !strings.Contains(tag, "omitempty") && !slices.Contains(params.ParentSchema.Required, params.Name) {
		params.ParentSchema.Required = append(params.ParentSchema.Required, params.Name)
	}
	return nil
}

// plain makes an object of a schema, to which words can be added that the library does not have.
func plain(schema jsonschema.Schema) object {
	encoded, err := json.Marshal(schema)
	var decoded object
	if err == nil {
		err = json.Unmarshal(encoded, &decoded)
	}
	if err != nil {
		panic(fmt.Sprintf("httpapi: schema cannot be encoded: %v", err))
	}
	return decoded
}

// streamEvent describes the parts of an event as a client's parser gives them.
func streamEvent() object {
	var kinds []object
	for _, name := range slices.Sorted(maps.Keys(eventSchemas)) {
		kinds = append(kinds, object{
			"type": "object", "title": name, "required": []string{"id", "event", "data"},
			"properties": object{
				"id":    object{"type": "string", "pattern": "^[0-9a-f-]{36}:([0-9]+|end)$"},
				"event": object{"const": name},
				"data":  object{"type": "string", "contentMediaType": mediaJSON, "contentSchema": schemaRef(eventSchemas[name])},
			},
		})
	}
	return object{"description": "One event. Its id is a place in the reply's text: a client that stops reading goes on from there.", "oneOf": kinds}
}
