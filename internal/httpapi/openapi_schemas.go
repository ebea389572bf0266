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
	"github.com/arcoscribe/throughline/internal/history"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/transfer"
	"github.com/arcoscribe/throughline/streaming"
)

// schemaNames are the names of schemas that are not their type's own.
var schemaNames = map[reflect.Type]string{
	reflect.TypeFor[uuid.UUID]():             "UUID",
	reflect.TypeFor[errorBody]():             "Error",
	reflect.TypeFor[history.NewChat]():       "NewChatRequest",
	reflect.TypeFor[history.ChatChange]():    "ChangeChatRequest",
	reflect.TypeFor[history.MessageChange](): "ChangeMessageRequest",
	reflect.TypeFor[history.FileRef]():       "MessageFile",
	reflect.TypeFor[history.Cleared]():       "ClearResult",
	reflect.TypeFor[history.PruneQuery]():    "PruneRequest",
	reflect.TypeFor[history.Pruned]():        "PruneResult",
	reflect.TypeFor[transfer.Result]():       "ImportResult",
	reflect.TypeFor[transfer.Progress]():     "ImportProgress",
	reflect.TypeFor[streaming.Started]():     "MessageStarted",
	reflect.TypeFor[streaming.Delta]():       "ContentDelta",
	reflect.TypeFor[streaming.Completed]():   "Completion",
	reflect.TypeFor[streaming.Failed]():      "MessageFailed",
	reflect.TypeFor[streaming.Cancelled]():   "MessageCancelled",
	reflect.TypeFor[chat.Whole]():            "WholeReply",
	reflect.TypeFor[chat.PromptPreview]():    "Memory",
	reflect.TypeFor[chat.Context]():          "MemoryContext",
	reflect.TypeFor[chat.Window]():           "MemoryBudget",
	reflect.TypeFor[prompt.Receipt]():        "MemoryReceipt",
	reflect.TypeFor[prompt.Section]():        "MemorySection",
	reflect.TypeFor[prompt.Account]():        "SectionAccount",
}

// schemaName is the name of a type's schema: its own, with a capital letter, unless schemaNames has another.
func schemaName(of reflect.Type) string {
	if name, ok := schemaNames[of]; ok {
		return name
	}
	return strings.ToUpper(of.Name()[:1]) + of.Name()[1:]
}

// eventSchemas names the schema of each event's data.
var eventSchemas = map[string]string{
	streaming.EventStarted:   "MessageStarted",
	streaming.EventDelta:     "ContentDelta",
	streaming.EventCompleted: "Completion",
	streaming.EventFailed:    "MessageFailed",
	streaming.EventCancelled: "MessageCancelled",
}

// sentences describe what the tags of types of other packages do not.
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
	"Completion.memory":               "The receipt; null for a reply that was stored without one.",
	"WholeReply.memory":               "The receipt; null for a reply that was stored without one.",
	"WholeReply.finish_reason":        "Why the model stopped; cancelled when somebody stopped it.",
	"MessageStarted.model_variant":    "The model variant that answers.",
	"MessageCancelled.content_length": "Characters (Unicode code points) that were said.",
}

// schemas are all component schemas: those of the types of routes and of schemaNames, and those that have no type.
func schemas() object {
	all := object{
		"StreamEvent": streamEvent(), uiSchema: uiEvent(),
		"Readiness": object{
			"type": "object", "required": []string{"status"}, "properties": object{"status": object{"const": "ready"}}, "additionalProperties": true,
		},
	}
	collect := func(context *jsonschema.ReflectContext) {
		jsonschema.RootRef(context)
		context.CollectDefinitions = func(name string, schema jsonschema.Schema) { all[name] = plain(schema) }
	}
	for of := range schemaNames {
		reflectSchema(of, collect)
	}
	for _, r := range routes() {
		if r.out != nil {
			reflectSchema(r.out, collect)
		}
	}
	for _, r := range routes() {
		if r.body() != nil {
			reflectSchema(r.body(), collect, jsonschema.InterceptSchema(refuseUnknown))
		}
	}
	correctForeign(all)
	correctMemory(all)
	for _, described := range []map[string]string{sentences, memorySentences} {
		for name, sentence := range described {
			describe(all, name, sentence)
		}
	}
	return all
}

// correctForeign corrects the schemas of other packages' types.
func correctForeign(all object) {
	receipt := object{"anyOf": []object{schemaRef("MemoryReceipt"), {"type": "null"}}}
	property(all, "Completion", "memory", receipt)
	property(all, "WholeReply", "memory", maps.Clone(receipt))
	property(all, "WholeReply", "finish_reason", object{"type": "string", "enum": []string{"stop", "length", "content_filter", "cancelled"}})
	codes := object{"type": "string", "enum": slices.Sorted(maps.Keys(statuses))}
	property(all, "MessageFailed", "code", codes)
	codes = maps.Clone(codes)
	codes["description"] = "What went wrong, for programs."
	property(all, "Error", "code", codes)
}

// property replaces the schema of one property.
func property(all object, schema, name string, value object) {
	all[schema].(object)["properties"].(object)[name] = value
}

// neverNull takes null away from a list's types: Go has no type for a list that is always there.
func neverNull(all object, name string) {
	schema, name, _ := strings.Cut(name, ".")
	all[schema].(object)["properties"].(object)[name].(object)["type"] = "array"
}

// describe sets the description of a schema or, after a dot, of one of its properties.
func describe(all object, name, sentence string) {
	schema, name, isProperty := strings.Cut(name, ".")
	target := all[schema].(object)
	if isProperty {
		target = target["properties"].(object)[name].(object)
	}
	target["description"] = sentence
}

// reflectSchema makes the schema of a struct type from its tags.
func reflectSchema(of reflect.Type, options ...func(*jsonschema.ReflectContext)) object {
	reflector := jsonschema.Reflector{}
	reflector.AddTypeMapping(history.Field[string]{}, "")
	reflector.AddTypeMapping(history.Field[int]{}, 0)
	reflector.AddTypeMapping(history.Field[float64]{}, 0.0)
	reflector.AddTypeMapping(history.Field[[]string]{}, []string{})
	reflector.AddTypeMapping(history.Field[map[string]any]{}, map[string]any{})
	schema, err := reflector.Reflect(reflect.New(of).Elem().Interface(), append(options,
		func(context *jsonschema.ReflectContext) { context.EnvelopNullability = true },
		jsonschema.DefinitionsPrefix(schemaPrefix),
		jsonschema.InterceptDefName(func(t reflect.Type, _ string) string { return schemaName(t) }),
		jsonschema.InterceptSchema(uuidSchema),
		jsonschema.InterceptProp(readOwnTags),
	)...)
	if err != nil {
		panic(fmt.Sprintf("httpapi: no schema of %v: %v", of, err))
	}
	return plain(schema)
}

// refuseUnknown notes that requests refuse unknown fields.
func refuseUnknown(params jsonschema.InterceptSchemaParams) (stop bool, err error) {
	if params.Processed && params.Value.Kind() == reflect.Struct && params.Schema.HasType(jsonschema.Object) {
		no := false
		params.Schema.AdditionalProperties = &jsonschema.SchemaOrBool{TypeBoolean: &no}
	}
	return false, nil
}

// uuidSchema is the same for uuid.UUID and a pointer to it, which would otherwise make the shared schema nullable.
func uuidSchema(params jsonschema.InterceptSchemaParams) (stop bool, err error) {
	of := params.Value.Type()
	if of != reflect.TypeFor[uuid.UUID]() && of != reflect.TypeFor[*uuid.UUID]() {
		return false, nil
	}
	params.Schema.WithType(jsonschema.String.Type())
	params.Schema.WithFormat("uuid")
	return true, nil
}

// readOwnTags follows the rules for tags that the library does not have: what has no omitempty or omitzero is always
// there, null is among the words of a nullable enum, and type stands for the types of a json.RawMessage.
func readOwnTags(params jsonschema.InterceptPropParams) error {
	if !params.Processed {
		return nil
	}
	tag := params.Field.Tag.Get("json")
	if tag != "" && !strings.Contains(tag, ",omit") && !slices.Contains(params.ParentSchema.Required, params.Name) {
		params.ParentSchema.Required = append(params.ParentSchema.Required, params.Name)
	}
	if len(params.PropertySchema.Enum) > 0 && params.PropertySchema.HasType(jsonschema.Null) {
		params.PropertySchema.Enum = append(params.PropertySchema.Enum, nil)
	}
	if len(params.PropertySchema.AnyOf) > 0 {
		params.PropertySchema.Type = nil // a reference or null; the library keeps the type of what is referred to
	}
	if types := params.Field.Tag.Get("type"); types != "" {
		params.PropertySchema.Type = nil
		for name := range strings.SplitSeq(types, ",") {
			params.PropertySchema.AddType(jsonschema.SimpleType(name))
		}
	}
	return nil
}

// plain converts a schema to an object, to which words can be added that the library does not have.
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

// streamEvent describes the parts of an event as a client's parser returns them.
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
