"""`callboard mcp serve`: a program that starts its servers asks callboard, which works in the folder it is started in."""

from __future__ import annotations

from mcp.shared.subscriptions import ResourceUpdated

from support.cli.chat_scene import command as command
from support.cli.command import Command
from support.mcp.client import open_stdio


async def test_a_program_asks_an_agent_and_calls_a_tool_in_its_folder(command: Command) -> None:
    (command.workspace / "list.txt").write_text("buy milk")
    command.configure('[agents.reader]\nprompt = "You read."\n')
    options = ("--agent", "general", "--tool", "read_file")
    async with open_stdio(command, *options) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        assert tools == ["ask_general", "session_status", "session_result", "read_file"]
        files = [{"name": "where.txt", "text": "Tokyo"}]
        asked = await client.call_tool(
            "ask_general", {"prompt": "What time is it in Tokyo?", "files": files}
        )
        assert asked.structured_content["outcome"] == "answered"
        found = await client.call_tool("read_file", {"path": "list.txt"})
        assert "buy milk" in found.content[0].text
        uri = f"callboard://session/{asked.structured_content['session_id']}"
        async with client.listen(resource_subscriptions=[uri]) as stream:
            more = {"session_id": asked.structured_content["session_id"]}
            await client.call_tool("ask_general", {"prompt": "What time is it in Oslo?", **more})
            assert await anext(aiter(stream)) == ResourceUpdated(uri)
    sessions = await command("sessions", "--json")
    assert asked.structured_content["session_id"] in sessions.out
    shown = await command("show", asked.structured_content["session_id"])
    assert "where.txt" in shown.out
