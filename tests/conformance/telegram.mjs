// grammY against an emulator: node telegram.mjs <base of the Bot API> <bot token>
//
// Greets /start with a button, edits on press, sends a document back, notes texts, edits, albums and reactions.
// Writes one JSON line per thing that it got; ends when its standard input does.
import { Bot, InlineKeyboard, InputFile } from 'grammy';

const [apiRoot, token] = process.argv.slice(2);
const tell = (what, more = {}) => process.stdout.write(`${JSON.stringify({ what, ...more })}\n`);

const bot = new Bot(token, { client: { apiRoot } });

bot.command('start', (ctx) =>
  ctx.reply('<b>Hi</b> &amp; welcome', {
    parse_mode: 'HTML',
    reply_markup: new InlineKeyboard().text('Go', 'go:1'),
    reply_parameters: { message_id: ctx.msg.message_id },
  }),
);

bot.on('callback_query:data', async (ctx) => {
  await ctx.answerCallbackQuery({ text: 'ok' });
  await ctx.editMessageText(`<i>${ctx.callbackQuery.data} by ${ctx.from.id}</i>`, { parse_mode: 'HTML' });
});

bot.on('message:document', async (ctx) => {
  const file = await ctx.getFile();
  const got = await fetch(`${apiRoot}/file/bot${token}/${file.file_path}`);
  const content = Buffer.from(await got.arrayBuffer());
  tell('document', { content: content.toString('base64') });
  await ctx.replyWithDocument(new InputFile(content, 'back.bin'), { caption: '<u>back</u>', parse_mode: 'HTML' });
});

bot.on('message:photo', (ctx) => tell('photo', { album: ctx.msg.media_group_id }));
bot.on('message:text', async (ctx) => {
  if (ctx.msg.text === 'errors') {
    const refused = [];
    for (const send of [
      () => ctx.reply('<b>open', { parse_mode: 'HTML' }),
      () => ctx.api.sendMessage(1, 'nobody'),
      () => ctx.reply('x'.repeat(4097)),
    ]) {
      await send().catch((error) => refused.push(error.description));
    }
    tell('refused', { refused });
    return;
  }
  tell('text', { thread: ctx.msg.message_thread_id ?? null, text: ctx.msg.text });
});
bot.on('edited_message:text', (ctx) => tell('edit', { text: ctx.msg.text }));
bot.on('message_reaction', (ctx) => tell('reaction', { emoji: ctx.messageReaction.new_reaction.map((one) => one.emoji) }));
bot.catch((error) => tell('error', { text: String(error.error) }));

process.stdin.on('end', () => bot.stop()).resume();
await bot.start({
  allowed_updates: ['message', 'edited_message', 'callback_query', 'message_reaction'],
  onStart: (me) => tell('started', { bot: me.id, name: me.username }),
});
