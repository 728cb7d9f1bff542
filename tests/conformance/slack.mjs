// Slack's own Node client against an emulator: node slack.mjs <base of the Web API> <bot token> <app token>
//
// Greets a mention with buttons, edits on press, asks for a reason in a modal, answers a command twice, streams an
// answer, uploads a file. Writes one JSON line per thing that it got; ends when its standard input does.
import bolt from '@slack/bolt';

const [slackApiUrl, token, appToken] = process.argv.slice(2);
const tell = (what, more = {}) => process.stdout.write(`${JSON.stringify({ what, ...more })}\n`);
const plain = (text) => ({ type: 'plain_text', text });

const app = new bolt.App({
  token,
  appToken,
  socketMode: true,
  logLevel: 'error',
  clientOptions: { slackApiUrl, retryConfig: { retries: 0 } },
});

app.event('app_mention', async ({ event, say }) => {
  await say({
    text: 'Hello',
    thread_ts: event.ts,
    metadata: { event_type: 'greeting', event_payload: { of: event.ts } },
    blocks: [
      { type: 'section', text: { type: 'mrkdwn', text: 'Hello' } },
      {
        type: 'actions',
        elements: [
          { type: 'button', action_id: 'go', value: '1', text: plain('Go'), style: 'primary' },
          { type: 'button', action_id: 'why', value: '2', text: plain('Why') },
        ],
      },
    ],
  });
});

app.action('go', async ({ ack, body, client }) => {
  await ack();
  await client.chat.update({ channel: body.channel.id, ts: body.message.ts, text: 'pressed', blocks: [] });
});

app.action('why', async ({ ack, body, client }) => {
  await ack();
  await client.views.open({
    trigger_id: body.trigger_id,
    view: {
      type: 'modal',
      callback_id: 'reason',
      title: plain('Reason'),
      submit: plain('Send'),
      blocks: [
        {
          type: 'input',
          block_id: 'why',
          label: plain('Why?'),
          element: { type: 'plain_text_input', action_id: 'text' },
        },
      ],
    },
  });
});

app.view('reason', async ({ ack, view }) => {
  const { value } = view.state.values.why.text;
  if (value.length < 3) {
    await ack({ response_action: 'errors', errors: { why: 'Say more' } });
    return;
  }
  await ack();
  tell('reason', { value });
});

app.command('/echo', async ({ ack, respond, command }) => {
  await ack(`at once ${command.text}`);
  await respond('later');
});

app.message(async ({ message, client }) => {
  tell('message', { subtype: message.subtype ?? '', text: message.text ?? '' });
  if (message.text === 'stream') {
    const stream = client.chatStream({ channel: message.channel, thread_ts: message.ts, buffer_size: 4 });
    await stream.append({ markdown_text: 'Once upon ' });
    await stream.append({ markdown_text: 'a time' });
    await stream.stop();
  }
  if (message.text === 'file') {
    await client.filesUploadV2({ channel_id: message.channel, filename: 'r.txt', file: Buffer.from('result') });
  }
  if (message.text === 'errors') {
    const refused = [];
    for (const [method, parameters] of [
      ['chat.postMessage', { channel: 'C0NONE', text: 'x' }],
      ['chat.postMessage', { channel: message.channel }],
      ['reactions.add', { channel: message.channel, timestamp: '1.000001', name: 'eyes' }],
    ]) {
      await client.apiCall(method, parameters).catch((error) => refused.push(error.data.error));
    }
    tell('refused', { refused });
  }
});

app.event('reaction_added', async ({ event }) => tell('reaction', { name: event.reaction }));
app.error(async (error) => tell('error', { message: String(error.original ?? error) }));

await app.start();
const who = await app.client.auth.test();
const scopes = who.response_metadata.scopes ?? [];
tell('started', { bot: who.user_id, scopes: scopes.length });

process.stdin.resume();
process.stdin.on('end', async () => {
  await app.stop();
  process.exit(0);
});
