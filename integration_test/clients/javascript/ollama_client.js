// The official JavaScript client of Ollama.

import { Ollama } from 'ollama'
import Ajv from 'ajv/dist/2020.js'
import { z } from 'zod'
import {
  assert, collect, cosine, EMBED, FILL, GREEDY, HOST, main, NATIVE, NATIVE_THINK, norm, on, refusal, scenario, SMOL, STORY, THINK,
} from './harness.js'

const client = new Ollama({ host: HOST })
const question = [{ role: 'user', content: 'What is the capital of France?' }]
const say = (model, messages = question, more = {}) =>
  client.chat({ model, messages, ...more, options: { ...GREEDY, ...more.options } })

on([SMOL, NATIVE], 'chat', async (model) => {
  const r = await say(model)
  assert.match(r.message.content, /Paris/)
  assert.deepEqual([r.message.role, r.done, r.done_reason], ['assistant', true, 'stop'])
  assert.ok(r.eval_count > 3 && r.prompt_eval_count > 10 && r.eval_duration > 0)
})

on([SMOL, NATIVE], 'chat_stream_equals_whole_answer', async (model) => {
  const whole = await say(model)
  const parts = await collect(say(model, question, { stream: true }))
  assert.equal(parts.map((p) => p.message.content).join(''), whole.message.content)
  assert.deepEqual(parts.map((p) => p.done), [...Array(parts.length - 1).fill(false), true])
  assert.equal(parts.at(-1).eval_count, whole.eval_count)
})

on([SMOL, NATIVE], 'chat_remembers_earlier_turns', async (model) => {
  const first = await say(model)
  const r = await say(model, [...question, first.message, { role: 'user', content: 'And of Italy?' }])
  assert.match(r.message.content, /Rome/)
})

on([SMOL, NATIVE], 'generate_raw_equals_chat', async (model) => {
  const prompt = `<|im_start|>user\n${question[0].content}<|im_end|>\n<|im_start|>assistant\n`
  const raw = await client.generate({ model, prompt, raw: true, options: GREEDY })
  assert.equal(raw.response, (await say(model)).message.content)
})

scenario('generate_streams_what_it_answers', async () => {
  const request = { model: STORY, prompt: 'One day, Tom and Lily', options: GREEDY }
  const whole = await client.generate(request)
  const parts = await collect(client.generate({ ...request, stream: true }))
  assert.equal(parts.map((p) => p.response).join(''), whole.response)
  assert.equal(whole.eval_count, GREEDY.num_predict)
  assert.deepEqual(parts.at(-1).context, whole.context)
})

scenario('generate_suffix_goes_through_the_template', async () => {
  const got = await client.generate({ model: FILL, prompt: 'They went home.', suffix: 'Tim had a red ball.', options: GREEDY })
  const raw = await client.generate({ model: STORY, prompt: 'Tim had a red ball. They went home.', raw: true, options: GREEDY })
  assert.equal(got.response, raw.response)
})

on([STORY, NATIVE], 'same_seed_same_text', async (model) => {
  const draw = async (seed) => (await say(model, question, { options: { temperature: 0.9, seed, num_predict: 30 } })).message.content
  const first = await draw(7)
  assert.equal(await draw(7), first)
  assert.ok(new Set([first, await draw(8), await draw(9), await draw(10)]).size > 1)
})

on([STORY, NATIVE], 'stop_text_ends_the_answer', async (model) => {
  const whole = (await say(model)).message.content
  const stop = whole.slice(whole.length / 2).slice(0, 6)
  const r = await say(model, question, { options: { stop: [stop] } })
  assert.equal(r.message.content, whole.slice(0, whole.indexOf(stop)))
  assert.equal(r.done_reason, 'stop')
})

on([STORY, NATIVE], 'logprobs_describe_the_text', async (model) => {
  const r = await say(model, question, { logprobs: true, top_logprobs: 3, options: { num_predict: 5 } })
  assert.equal(r.logprobs.map((l) => l.token).join(''), r.message.content)
  for (const l of r.logprobs) {
    assert.equal(l.top_logprobs.length, 3)
    assert.equal(l.top_logprobs[0].token, l.token)
    assert.ok(l.top_logprobs.reduce((sum, t) => sum + Math.exp(t.logprob), 0) <= 1.0001)
  }
})

on([STORY, SMOL, NATIVE], 'json_mode_gives_an_object', async (model) => {
  const r = await say(model, [{ role: 'user', content: 'Describe Paris as JSON.' }], { format: 'json', options: { num_predict: 300 } })
  if (r.done_reason === 'stop') assert.equal(typeof JSON.parse(r.message.content), 'object')
  else assert.match(r.message.content, /^\s*\{/)
})

const Trip = z.object({
  city: z.enum(['Rome', 'Oslo', 'Cairo']),
  days: z.number().int().min(1).max(30),
  notes: z.array(z.string().max(10)).max(2),
  guide: z.object({ name: z.string().min(1).max(10), phone: z.string().regex(/^[0-9]{3}-[0-9]{4}$/) }).nullable(),
  paid: z.boolean().optional(),
})

on([STORY, SMOL, NATIVE], 'zod_schema_holds', async (model) => {
  const format = z.toJSONSchema(Trip)
  const valid = new Ajv().compile(format)
  for (const seed of [1, 2]) {
    const options = { temperature: seed - 0.5, seed, num_predict: 400 }
    const r = await say(model, [{ role: 'user', content: 'Invent a trip.' }], { format, options })
    assert.equal(r.done_reason, 'stop', r.message.content)
    Trip.parse(JSON.parse(r.message.content))
    assert.ok(valid(JSON.parse(r.message.content)), JSON.stringify(valid.errors))
  }
})

const tools = [{
  type: 'function',
  function: {
    name: 'get_weather', description: 'Get the weather of a city.',
    parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  },
}]
const asking = (city) => ({ role: 'user', content: `Weather in ${city}?` })
// The small model calls a function only if the conversation shows how.
const examples = ['Paris', 'London'].flatMap((city) => [
  asking(city), { role: 'assistant', content: '', tool_calls: [{ function: { name: 'get_weather', arguments: { city } } }] },
])

on([SMOL, NATIVE], 'tool_is_called_and_its_result_used', async (model) => {
  const messages = [...examples, asking('Rome')]
  const r = await say(model, messages, { tools })
  assert.equal(r.message.tool_calls.length, 1)
  const called = r.message.tool_calls[0].function
  assert.deepEqual([called.name, called.arguments], ['get_weather', { city: 'Rome' }])
  const result = { role: 'tool', tool_name: 'get_weather', content: 'The weather in Rome is rainy with 14 degrees.' }
  assert.match((await say(model, [...messages, r.message, result], { tools })).message.content, /14/)
})

on([SMOL, NATIVE], 'tool_calls_are_streamed', async (model) => {
  const parts = await collect(say(model, [...examples, asking('Oslo')], { tools, stream: true }))
  const calls = parts.flatMap((p) => p.message.tool_calls ?? [])
  assert.deepEqual(calls.map((c) => c.function.arguments), [{ city: 'Oslo' }])
  assert.doesNotMatch(parts.map((p) => p.message.content).join(''), /tool_call/)
})

const capital = [{ role: 'user', content: 'What is the capital of Italy?' }]

on([THINK, NATIVE_THINK], 'thinking_and_answer_are_separate', async (model) => {
  const r = await say(model, capital, { think: true })
  assert.match(r.message.thinking, /Italy/)
  assert.match(r.message.content, /Rome/)
  assert.doesNotMatch(r.message.thinking + r.message.content, /think>/)
  const off = await say(model, capital, { think: false })
  assert.ok(!off.message.thinking)
  assert.match(off.message.content, /Rome/)
})

on([STORY, NATIVE], 'images_are_refused', async (model) => {
  const pixel = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
  const error = await refusal(say(model, [{ role: 'user', content: 'What is this?', images: [pixel] }]))
  assert.equal(error.status_code, 400)
  assert.match(error.error, /image/i)
})

on([STORY, NATIVE], 'abort_ends_a_stream', async (model) => {
  const expected = (await say(model)).message.content
  for (let i = 0; i < 5; i++) { // one more than there are slots
    const stream = await say(model, question, { stream: true, options: { num_predict: -1, temperature: 1.2 } })
    let pieces = 0
    const error = await refusal((async () => {
      for await (const _ of stream) if (++pieces === 3) stream.abort()
    })())
    assert.equal(error.name, 'AbortError')
  }
  assert.equal((await say(model)).message.content, expected)
})

on([STORY, SMOL, NATIVE], 'four_at_once_equal_their_solo_texts', async (model) => {
  const prompts = ['Once upon a time', 'One day, Tom and Lily', 'Tim had a red ball.', 'The sun is']
  const one = async (content) => (await say(model, [{ role: 'user', content }], { options: { num_predict: 24 } })).message.content
  const solo = []
  for (const prompt of prompts) solo.push(await one(prompt))
  assert.deepEqual(await Promise.all(prompts.map(one)), solo)
})

scenario('ps_and_keep_alive', async () => {
  const names = async () => (await client.ps()).models.map((m) => m.name.replace(':latest', ''))
  await say(STORY, question, { keep_alive: '5m' })
  assert.ok((await names()).includes(STORY))
  await client.generate({ model: STORY, prompt: '', keep_alive: 0 })
  for (const end = Date.now() + 120_000; (await names()).includes(STORY) && Date.now() < end;) await new Promise((f) => setTimeout(f, 20))
  assert.ok(!(await names()).includes(STORY))
  assert.ok((await say(STORY)).done)
})

scenario('show_and_list', async () => {
  const names = (await client.list()).models.map((m) => m.name.replace(':latest', ''))
  for (const name of [STORY, SMOL, NATIVE]) assert.ok(names.includes(name), name)
  const shown = await client.show({ model: SMOL })
  assert.deepEqual(new Set(shown.capabilities), new Set(['completion', 'tools']))
  assert.match(shown.template, /<tool_call>/)
})

scenario('embeddings_new_and_old', async () => {
  const texts = ['Tim had a red ball.', 'One day']
  const { embeddings } = await client.embed({ model: EMBED, input: texts })
  assert.equal(embeddings.length, 2)
  for (const [i, prompt] of texts.entries()) {
    assert.ok(Math.abs(norm(embeddings[i]) - 1) < 1e-4)
    const { embedding } = await client.embeddings({ model: EMBED, prompt })
    assert.ok(cosine(embedding, embeddings[i]) > 0.9999)
  }
  assert.ok(cosine(...embeddings) < 0.9999)
})

scenario('errors_have_status_and_text', async () => {
  const unknown = await refusal(say('no-such-model'))
  assert.equal(unknown.status_code, 404)
  assert.match(unknown.message, /not found/)
  const schema = await refusal(say(STORY, question, { format: { type: 'strin' } }))
  assert.equal(schema.status_code, 400)
  assert.match(schema.message, /unknown type/)
})

await main()
