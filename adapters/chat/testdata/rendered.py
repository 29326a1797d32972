#!/usr/bin/env python3
"""rendered.py LLAMA_SERVER MODEL.gguf TEMPLATES: write the texts in rendered.json again.

It starts llama.cpp's llama-server with each template, and asks it to apply the template
to the conversations in rendered.json. The file keeps the first 32 digits of each text's
SHA-256; the texts themselves are written into the folder texts of the current folder.
"""
import datetime, hashlib, json, os, subprocess, sys, time, urllib.error, urllib.request

server, model, templates = sys.argv[1:]
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "rendered.json")
port = 18765


def call(endpoint, body=None):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{endpoint}", body and json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)


with open(path) as f:
    data = json.load(f)
data["date"] = datetime.date.today().isoformat()
data["texts"] = {}
os.makedirs("texts", exist_ok=True)
for file in sorted(os.listdir(templates)):
    name, extension = os.path.splitext(file)
    if extension != ".jinja":
        continue
    process = subprocess.Popen([server, "-m", model, "--port", str(port), "--host", "127.0.0.1", "-c", "256", "-t", "1",
                                "--jinja", "--chat-template-file", os.path.join(templates, file), "--no-warmup"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while True:
            try:
                call("/health")
                break
            except OSError:
                time.sleep(0.05)
                if process.poll() is not None:
                    sys.exit(f"{name}: llama-server ended")
        texts = data["texts"][name] = {}
        for which, conversation in data["conversations"].items():
            try:
                text = call("/apply-template", conversation)["prompt"]
            except urllib.error.HTTPError:
                texts[which] = None  # llama.cpp refuses this conversation
                continue
            texts[which] = hashlib.sha256(text.encode()).hexdigest()[:32]
            with open(f"texts/{name}.{which}.txt", "w") as out:
                out.write(text)
    finally:
        process.kill()
        process.wait()
with open(path, "w") as f:
    json.dump(data, f, ensure_ascii=False, indent=1)
    f.write("\n")
