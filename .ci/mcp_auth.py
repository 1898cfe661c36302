#!/usr/bin/env python3
"""Plays the person in the `auth/*` scenarios of the official MCP suite: mcp_auth.py login|run CONFIG PROGRAM [ARGUMENT...]

Writes the scenario's client settings (`MCP_CONFORMANCE_CONTEXT`) to the server's entry in CONFIG, as a person would. `login`
then logs in. `run` runs the task; if the program asks for a login, it logs in and runs the task again."""
import json, os, re, subprocess, sys, urllib.request


def described(config):
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    oauth = {"clientId": context.get("client_id"), "clientSecret": context.get("client_secret")}
    if "client-credentials" in scenario:
        oauth |= {"grant": "client_credentials", "privateKey": context.get("private_key_pem")}
    elif "wif-jwt-bearer" in scenario:
        oauth |= {"grant": "jwt_bearer", "assertion": context.get("valid_jwt")}
    elif "enterprise-managed" in scenario:
        provider = {"tokenEndpoint": context.get("idp_token_endpoint"), "clientId": context.get("idp_client_id")}
        oauth |= {"grant": "enterprise_managed", "assertion": context.get("idp_id_token"), "identityProvider": provider}
    elif "cimd" in scenario:
        oauth |= {"clientMetadataUrl": "https://conformance-test.local/client-metadata.json"}
    oauth = {name: value for name, value in oauth.items() if value}
    if oauth:
        with open(config) as file:
            servers = json.load(file)
        servers["mcpServers"]["conf"]["oauth"] = oauth
        with open(config, "w") as file:
            json.dump(servers, file)


def login(program, config):
    command = [program, "mcp", "login", "conf", "--mcp-config", config]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for line in started.stdout:
        sys.stdout.write(line)
        found = re.search(r"https?://\S*authorize\S*", line)
        if found:
            try:
                urllib.request.urlopen(found.group(0), timeout=10).read()
            except Exception as error:
                print("opening the address: %s" % error)
    return started.wait(30)


def main():
    what, config, program, *arguments = sys.argv[1:]
    described(config)
    if what == "login":
        # The caller opens the URL.
        sys.exit(subprocess.run([program, "mcp", "login", "conf", "--mcp-config", config]).returncode)
    for last in (False, True):
        done = subprocess.run([program, *arguments], capture_output=True, text=True)
        sys.stdout.write(done.stdout)
        sys.stderr.write(done.stderr)
        told = "mcp login conf" in done.stdout + done.stderr
        if last or not told or login(program, config) != 0:
            sys.exit(done.returncode)


main()
