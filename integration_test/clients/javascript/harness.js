// Runs the scenarios of a client and prints one line of JSON for each.
//
// integration_test/scenarios_test.go starts the program and sets its environment.
// By hand, with the same environment: node ollama_client.js [SCENARIO...]

import assert from 'node:assert/strict'

// The models, as the Go test creates them; ../python/harness.py describes them.
export const STORY = 'story', FILL = 'fill', SMOL = 'smol', NATIVE = 'native'
export const THINK = 'think', NATIVE_THINK = 'native-think', EMBED = 'embed'

export const HOST = process.env.OLLAMA_HOST
export const GREEDY = { temperature: 0, num_ctx: 512, num_predict: 48 }
export { assert }

const scenarios = []

/** Registers a scenario. */
export function scenario(name, run) {
  scenarios.push({ name, run })
}

/** Registers a scenario once for each model, which it gets as its argument. */
export function on(models, name, run) {
  for (const model of models) scenario(`${name}_${model}`, () => run(model))
}

/** Runs the scenarios that the command line names, or all. */
export async function main() {
  const chosen = process.argv.slice(2)
  for (const { name, run } of scenarios) {
    if (chosen.length > 0 && !chosen.includes(name)) continue
    const begin = performance.now()
    let error = ''
    try {
      await run()
    } catch (e) {
      error = e?.stack ?? String(e)
    }
    console.log(JSON.stringify({ name, error, seconds: (performance.now() - begin) / 1000 }))
  }
}

/** Returns the error that a promise must be rejected with. */
export async function refusal(promise) {
  const got = await promise.then((value) => ({ value }), (error) => ({ error }))
  assert.ok(got.error, `it was not refused: ${JSON.stringify(got.value)}`)
  return got.error
}

/** Collects the parts of a stream. */
export async function collect(stream) {
  const parts = []
  for await (const part of await stream) parts.push(part)
  return parts
}

export const norm = (v) => Math.hypot(...v)
export const cosine = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0) / norm(a) / norm(b)
